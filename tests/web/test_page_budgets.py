"""What a page asks of the database is bounded, however many rows it shows; and the first page reads no past."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from tests.api.test_lists_by_index import grow
from tests.plans import rows_read
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db

QUERIES_MAX = {
    "/": 12,
    "/runs/": 8,
    "/runs/?phase=live&search=re&label=a&mine=1": 8,
    "/endpoints/": 10,
    "/teams/vision/runs/": 8,
    "/teams/vision/endpoints/": 10,
    "/teams/vision/": 24,
    # It runs, has ended, waits.
    "/runs/{resnet50}/": 11,
    "/runs/{unet-3d}/": 12,
    "/runs/{bert-large}/": 35,
    "/endpoints/{digits}/": 27,
}


@pytest.mark.parametrize("path", QUERIES_MAX)
def test_a_page_asks_a_bounded_number_of_queries(ana, made, world, path, django_assert_max_num_queries):
    for number in range(4):
        world.run(f"more-{number}")
        world.endpoint(f"served-{number}")
    address = path.format(**{name: each.public_id for name, each in made.items()})
    assert ana.get(address).status_code == 200
    with django_assert_max_num_queries(QUERIES_MAX[path]):
        ana.get(address)


def test_the_first_page_is_as_short_after_a_long_past(made, world):
    before = [rows_read(lambda who=who: signed_in(who).get("/")) for who in (world.ana, world.manager)]
    old = clock.now() - timedelta(days=30)
    grow(
        made["unet-3d"],
        400,
        phase=lambda number: ("Failed", "Succeeded")[number % 2],
        finished_at=old,
        since=old,
    )
    after = [rows_read(lambda who=who: signed_in(who).get("/")) for who in (world.ana, world.manager)]
    assert all(later <= earlier + 5 for earlier, later in zip(before, after, strict=True))
