"""Rows of another cluster, in the same tables and under the same names, say nothing about this one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster.client import connect
from cluster.names import DEFAULT_CLUSTER
from cluster.preflight import ClusterFacts
from controller.reconcile.observe import _lost_node
from foundation import clock
from foundation.errors import Unavailable
from portal.preflight import flavor_nodes
from portal.readiness import check_cluster
from quotas.snapshots import pool_snapshot_of
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.elsewhere import CURSORS, ELSEWHERE, make_rows
from tests.factories.teams import make_team
from tests.factories.workloads import make_workload
from workloads.models import NodeRecord, PodRecord, WatchCursor
from workloads.nodes.capacity import (
    claims_in,
    hosts_of,
    last_seen,
    node_pools,
    nodes,
    observe,
    rooms_of,
)
from workloads.nodes.cpu import kinds_of_the_past, plain_rooms
from workloads.strays import Strays, nodes_and_strays, stray_objects, strays
from workloads.watches import followed_kinds, watches

pytestmark = pytest.mark.django_db


@pytest.fixture
def flavor():
    return make_flavor()


@pytest.fixture
def run(flavor):
    return make_workload(team=make_team("vision"), flavor=flavor, units=1)


@pytest.fixture
def other(run):
    """Everything that there is of another cluster."""
    return make_rows(run)


@pytest.fixture
def both(run):
    """Two clusters with a node of the same name each."""
    return make_rows(run, cluster=DEFAULT_CLUSTER), make_rows(run)


def test_its_nodes_are_no_capacity(other, flavor):
    rooms = rooms_of(flavor, "on-demand")
    assert (rooms.rooms, rooms.largest, rooms.provisionable_units) == ((), 0, 0)
    assert (nodes(), node_pools(), hosts_of(None, "on-demand")) == ([], [], [])
    assert "No node offers" in flavor_nodes(ClusterFacts(connect("/nonexistent/kubeconfig"))).detail
    there = plain_rooms()
    assert (there.rooms, there.kinds, there.more, there.seen) == ((), (), False, False)
    NodeRecord.objects.update(gone_at=clock.now())
    assert kinds_of_the_past() == ()


def test_a_node_of_the_same_name_there_holds_nothing_here(both, flavor):
    (room,) = rooms_of(flavor, "on-demand").rooms
    assert (room.size, room.free, room.foreign) == (8, 6, 1)
    assert [node.name for node in nodes()] == ["a100-0"]
    (host,) = hosts_of(flavor.facts, "on-demand")
    assert host.others["example.org/nic"] == "1"
    (plain,) = plain_rooms().rooms
    cpu, memory, *_ = zip(plain.whole, plain.left, strict=True)
    assert cpu[0] - cpu[1] == 1000, "what one pod takes, not two"
    assert memory[0] - memory[1] == 2**30
    assert len(node_pools()) == 1


def test_each_cluster_can_be_asked_for_its_own(other, flavor):
    (room,) = rooms_of(flavor, "on-demand", known=observe(cluster=ELSEWHERE)).rooms
    assert (room.size, room.free) == (8, 6)
    assert [node.name for node in nodes(cluster=ELSEWHERE)] == ["a100-0"]
    assert len(plain_rooms(cluster=ELSEWHERE).rooms) == 1
    assert last_seen(cluster=ELSEWHERE).nodes_listed
    assert followed_kinds(cluster=ELSEWHERE) == set(CURSORS)
    assert strays(cluster=ELSEWHERE) == Strays(count=1, units=1)


def test_admission_counts_no_node_of_it(other, run, flavor):
    make_quota(run.team, flavor)
    pool = pool_snapshot_of(flavor=flavor, capacity_type="on-demand", now=clock.now())
    assert (pool.blocks, pool.largest_block, pool.nodes_seen) == ((), 0, False)


def test_its_watches_vouch_for_nothing_here(other, run):
    assert claims_in(run.team.namespace_name, now=clock.now()) is None
    assert followed_kinds() == frozenset()
    assert (watches().kinds, watches().seen_at) == (frozenset(), None)
    seen = last_seen()
    assert (seen.nodes_at, seen.oldest_at, seen.nodes_listed) == (None, None, False)
    assert observe().seen == seen
    with pytest.raises(Unavailable, match="nothing yet"):
        check_cluster()


def test_a_watch_there_that_stands_still_makes_nothing_here_old(both):
    WatchCursor.objects.filter(cluster=ELSEWHERE).update(seen_at=None, listed_at=None)
    WatchCursor.objects.filter(cluster=ELSEWHERE, kind="Pod").update(seen_at=clock.now() - timedelta(days=1))
    assert last_seen().oldest_at == watches().seen_at == observe().seen.oldest_at
    assert watches().seen_at > clock.now() - timedelta(hours=12)


def test_its_claims_are_none_of_the_same_namespace_here(both, run):
    both[0][6].delete()
    assert claims_in(run.team.namespace_name, now=clock.now()) == {}


def test_its_strays_are_not_counted_here(other):
    assert strays() == Strays(count=0, units=0)
    assert nodes_and_strays() == ([], Strays(count=0, units=0))
    assert stray_objects() == []


def test_a_node_that_stands_there_is_no_reason_to_think_that_it_stands_here(both):
    NodeRecord.objects.filter(cluster=DEFAULT_CLUSTER).update(gone_at=clock.now())
    vanished = PodRecord.objects.filter(cluster=DEFAULT_CLUSTER)
    assert _lost_node(vanished, DEFAULT_CLUSTER) == "a100-0"
    assert _lost_node(vanished, ELSEWHERE) is None
