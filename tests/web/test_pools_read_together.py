"""Pools that are read together are judged as each of them is alone."""

from __future__ import annotations

import pytest

from quotas.snapshots import outlook_of, supply_of
from tests.factories.catalogue import make_flavor, make_quota
from tests.web.queue_world import make_queue
from workloads.models import ResourceFlavor

pytestmark = pytest.mark.django_db


@pytest.fixture
def waits(world):
    """A run of a full pool, in a team with quota in three other pools, one of them of shared cards."""
    queue = make_queue(world)
    for name in ("a100-spare", "a100-unused"):
        make_quota(world.team, make_flavor(name), 2)
    ResourceFlavor.objects.filter(name="a100-80gb").update(card="a100-80gb")
    return queue["vit-huge"]


def outlook(world, waits, others):
    pool = {"flavor": waits.flavor, "capacity_type": waits.capacity_type}
    return outlook_of(**pool, now=world.now, team_id=world.team.pk, others=others, focus=waits)


def test_every_pool_is_the_same_as_read_alone(world, waits):
    found = outlook(world, waits, others=9)
    alone = {"now": world.now, "history": True}
    own = supply_of(flavor=waits.flavor, capacity_type="on-demand", focus=waits, **alone)
    assert found.own.supply == own
    flavors = {each.name: each for each in ResourceFlavor.objects.all()}
    assert [each.flavor.name for each in found.others] == [
        "a100-80gb",
        "a100-mig-1g.10gb",
        "a100-spare",
        "a100-unused",
    ]
    for each in found.others:
        assert each == supply_of(flavor=flavors[each.flavor.name], capacity_type="on-demand", **alone)


def test_several_pools_take_as_many_statements_as_one(world, waits, django_assert_num_queries):
    for others in (0, 9):
        with django_assert_num_queries(1):
            assert bool(outlook(world, waits, others).others) is bool(others)
