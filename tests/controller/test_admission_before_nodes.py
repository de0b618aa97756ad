"""A portal that has just been installed is asked before its watcher has listed the nodes."""

from __future__ import annotations

import pytest

from foundation import clock
from foundation.errors import Invalid
from tests.controller.looks import look
from tests.factories.catalogue import make_flavor, make_node, make_quota
from tests.factories.submitted import make_run
from tests.factories.teams import make_member, make_team
from workloads.models import NodeRecord, WatchCursor, Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def flavor():
    return make_flavor()


@pytest.fixture
def owner(flavor):
    member = make_member(team=make_team("vision"))
    make_quota(member.team, flavor, 8)
    return member


def nodes_are_listed():
    now = clock.now()
    WatchCursor.objects.create(kind=NodeRecord.WATCH, resource_version="1", listed_at=now, seen_at=now)


def test_what_nobody_has_looked_for_is_not_said_to_be_missing(owner, flavor):
    run = make_run(owner.team, owner.user, flavor=flavor, gpus_per_replica=1)
    look(run)
    assert (run.phase, run.reason) == (Phase.QUEUED, Reason.TOPOLOGY_PLACEMENT_FAILED)
    assert "nodes are being listed" in run.message

    make_node("a100-0", units=8)
    nodes_are_listed()
    Workload.objects.filter(pk=run.pk).update(next_reconcile_at=clock.now())
    assert look(run).admitted
    assert run.phase == Phase.ADMITTED


def test_a_cluster_that_was_listed_and_has_no_node_refuses(owner, flavor):
    nodes_are_listed()
    with pytest.raises(Invalid, match="No node offers"):
        make_run(owner.team, owner.user, flavor=flavor, gpus_per_replica=1)
