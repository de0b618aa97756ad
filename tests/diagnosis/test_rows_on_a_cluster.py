"""Each row written into an API server as the scheduler, the kubelet or an operator writes it; REST names what was planted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from tests.controller.clusters import own_namespace
from tests.diagnosis.planted import in_its_first_attempt
from tests.diagnosis.planted_in_cluster import planting
from tests.diagnosis.rows import BY_ROWS_ALONE, ROWS, kind_of, values_of
from tests.effort import SOAK, spread
from tests.factories.teams import api_client, make_team

pytestmark = pytest.mark.django_db
LATER = timedelta(minutes=12)
"""When it is asked: what takes ten minutes to be noticed has lasted so long."""
PLANTED = [name for name in ROWS if name not in BY_ROWS_ALONE and (SOAK or " " not in name)]
"""Of each row one, and where `PORTAL_TEST_EFFORT` is `soak` all its variants; `test_rule_table` has all, by rows alone."""


@pytest.mark.parametrize("name", spread(PLANTED, usual=12))
def test_what_is_written_into_an_api_server_gets_the_name_of_its_row(name, field_client):
    phase, plant = ROWS[name]
    with own_namespace(field_client, "rows") as namespace:
        team = make_team("vision", namespace=namespace)
        run = in_its_first_attempt(team, phase, kind=kind_of(name), since=clock.now(), **values_of(name))
        with planting(run, field_client) as it:
            plant(it)
            with clock.freeze(clock.now() + LATER):
                address = run.own_kind.resource_of(run.public_id)
                answer = api_client(run.owner).get(f"{address}diagnosis/").json()
    assert [finding["id"] for finding in answer["findings"]][:1] == [name.split()[0]], answer
