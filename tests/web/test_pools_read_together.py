"""Pools that are read together are judged as each of them is alone."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.services import preview_training_run
from jobs.specs import TrainingRunSpec
from quotas.snapshots import outlook_of, pool_snapshot_of
from tests.factories.catalogue import make_flavor, make_quota
from tests.web.world import run_body
from workloads.models import NodeRecord, ResourceFlavor, WatchCursor, Workload

pytestmark = pytest.mark.django_db
READS_POOLS = "WITH asked"


@pytest.fixture
def waits(world, queue):
    """A run of a full pool, in a team with quota in three other pools, one of them of shared cards."""
    for name in ("a100-spare", "a100-unused"):
        make_quota(world.team, make_flavor(name), 2)
    ResourceFlavor.objects.filter(name="a100-80gb").update(card="a100-80gb")
    return queue["vit-huge"]


def outlook(world, waits, others, **how):
    pool = {"flavor": waits.flavor, "capacity_type": waits.capacity_type}
    return outlook_of(**pool, now=world.now, team_id=world.team.pk, others=others, focus=waits, **how)


@pytest.mark.parametrize("later", [False, True])
def test_every_pool_is_the_same_as_read_alone(world, waits, later):
    found = outlook(world, waits, others=9, later=later)
    alone = {"now": world.now, "history": True}
    own = pool_snapshot_of(flavor=waits.flavor, capacity_type="on-demand", focus=waits, **alone)
    assert found.own.pool == own
    flavors = {each.name: each for each in ResourceFlavor.objects.all()}
    assert [each.flavor.name for each in found.others] == [
        "a100-80gb",
        "a100-mig-1g.10gb",
        "a100-spare",
        "a100-unused",
    ]
    for each in found.others:
        assert each == pool_snapshot_of(flavor=flavors[each.flavor.name], capacity_type="on-demand", **alone)


def test_several_pools_take_as_many_statements_as_one(world, waits, django_assert_num_queries):
    for others in (0, 9):
        with django_assert_num_queries(1):
            assert bool(outlook(world, waits, others).others) is bool(others)


# --- what nobody has submitted yet


def preview(world, flavor="a100-40gb"):
    body = run_body("new", gpus_per_replica=8, flavor=flavor)
    del body["team"]
    spec = TrainingRunSpec.from_json(body)
    card = preview_training_run(spec=spec, team=world.team, user=world.ana, now=world.now)
    # Hints are no part of the verdict: they look at nodes themselves.
    return replace(card, hints=())


@contextmanager
def changing(change):
    """Somebody else changes the rows right after the first reading of pools."""
    left = [change]

    def execute(run, sql, *given):
        found = run(sql, *given)
        if READS_POOLS in sql and left:
            left.pop()()
        return found

    with connection.execute_wrapper(execute):
        yield
    assert not left


def test_a_card_is_of_one_reading_whatever_changes_before_its_levers_are_looked_for(world, waits):
    def everything_changes():
        Workload.objects.filter(phase="Queued").update(desired="cancel")
        NodeRecord.objects.update(gone_at=world.now)
        WatchCursor.objects.update(seen_at=world.now)

    before = preview(world)
    assert before.ahead
    assert any(each.lever.change.get("flavor") == "a100-80gb" for each in before.offers)
    with changing(everything_changes):
        assert preview(world) == before
    assert preview(world) != before


@pytest.mark.parametrize(
    ("flavor", "outcome", "statements"), [("a100-80gb", "admit", 1), ("a100-40gb", "wait", 2)]
)
def test_only_what_does_not_start_now_looks_at_other_pools(world, waits, flavor, outcome, statements):
    with CaptureQueriesContext(connection) as asked:
        assert preview(world, flavor).verdict.outcome == outcome
    reads = [each["sql"] for each in asked if READS_POOLS in each["sql"]]
    assert len(reads) == statements
    assert sum("workloads_noderecord" in each for each in reads) == 1
