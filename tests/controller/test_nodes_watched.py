"""The watch keeps the history of nodes: as they come, change and go, and of those that it finds as they were."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from controller.watch import watcher as module
from controller.watch.capacity import NodeSink
from controller.watch.watcher import EVERY
from foundation import clock
from tests.controller.test_watched_capacity import flavor, following, node, until  # noqa: F401 (fixtures)
from workloads.models import NodeInterval, WatchCursor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short_watches(monkeypatch):
    monkeypatch.setattr(module, "WATCH_SECONDS", 1)


def rows(name):
    return NodeInterval.objects.of("default").filter(node_name=name)


def a_second_later():
    """What begins and ends within a second has no row."""
    now = clock.now()
    until(lambda: clock.now() - now > timedelta(seconds=1.1))


def test_a_node_has_a_history_from_when_it_was_made_until_it_is_gone(client, flavor):  # noqa: F811
    name = f"{flavor.name}-{flavor.node_selector['nvidia.com/gpu.product'][0].lower()}"
    labels = {"nvidia.com/gpu.product": flavor.node_selector["nvidia.com/gpu.product"][0]}
    resources = {"nvidia.com/gpu": "4", "cpu": "8", "memory": "32Gi", "pods": "50"}
    metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    ref = ObjectRef("v1", "Node", "", name)
    with following(client, kinds.NODE, NodeSink(), EVERY):
        until(lambda: WatchCursor.objects.filter(kind="Node"))
        made = client.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        client.patch_merge(ref, {"status": {"capacity": resources, "allocatable": resources}}, sub="status")
        until(lambda: rows(name).filter(offered_numerator=4, ended_at=None))
        a_second_later()
        client.patch_merge(ref, {"status": {"allocatable": {"nvidia.com/gpu": "3"}}}, sub="status")
        until(lambda: rows(name).filter(offered_numerator=3, ended_at=None))
        a_second_later()
        client.delete(ref, uid=made["metadata"]["uid"])
        until(lambda: not rows(name).filter(ended_at=None))
    history = list(rows(name))
    assert history[0].started_at == datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    assert [row.started_at for row in history[1:]] == [row.ended_at for row in history[:-1]], "without a gap"
    assert [row.offered for row in history][-2:] == [4, 3]
    assert {(row.cards, row.certain, row.node_uid) for row in history} == {(4, True, made["metadata"]["uid"])}


def test_a_list_begins_the_history_of_a_node_that_it_finds_as_it_was(client, flavor, node):  # noqa: F811
    with following(client, kinds.NODE, NodeSink(), EVERY):
        until(lambda: rows(node.name).filter(ended_at=None))
    rows(node.name).delete()
    with following(client, kinds.NODE, NodeSink(), EVERY):
        until(lambda: rows(node.name).filter(ended_at=None))
    assert [(row.cards, row.offered) for row in rows(node.name)] == [(4, 4)]
