"""Where endpoints are reached, as the gateway asks for it: for many at once."""

from __future__ import annotations

import pytest

from controller.routes import route_of, routes_for
from tests.factories.submitted import make_attempt, make_endpoint, move
from tests.factories.teams import make_member, make_team
from workloads.states import Phase

pytestmark = pytest.mark.django_db


def deployed(team, user, name, *, port=8080):
    workload = make_endpoint(team, user, name=name, ports={"http": port})
    make_attempt(workload)
    move(workload, Phase.RUNNING)
    return workload, workload.attempts.get()


def test_many_routes_take_as_many_queries_as_few(django_assert_num_queries):
    team = make_team("vision")
    user = make_member(team=team).user
    made = {
        f"digits-{number}": deployed(team, user, f"digits-{number}", port=8080 + number)
        for number in range(5)
    }
    make_endpoint(team, user, name="waiting")
    names = [("vision", name) for name in (*made, "waiting", "nothing")]
    with django_assert_num_queries(3):
        found = routes_for(names)
    for number, (name, (workload, attempt)) in enumerate(made.items()):
        route = found["vision", name]
        assert route.public_id == workload.public_id
        assert (route.service, route.port) == (attempt.object_name, 8080 + number)
        assert route.is_live
        assert route_of(workload) == route
    assert not found["vision", "waiting"].is_live
    assert found["vision", "nothing"] is None
