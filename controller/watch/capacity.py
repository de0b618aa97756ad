"""The watcher's rows of nodes, of NodePools, and of foreign pods, which use a part of the nodes.

Updating a row and making its pools due are one step: a list skips unchanged rows, so a later step would miss it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from typing_extensions import override

from cluster.client import ClusterClient
from cluster.kinds import ObjectRef
from controller.reconcile.sightings import still_there
from controller.watch.sinks import OneByOne, lacking
from quotas.services import mark_due
from workloads.models import ForeignPod, NodePoolRecord, NodeRecord
from workloads.nodes.capacity import pool_facts, pools_fed_by, pools_near
from workloads.nodes.history import keep_histories
from workloads.observations import (
    forget_later,
    latest_version,
    mark_node_gone,
    record_foreign_pod,
    record_node,
    record_node_pool,
    unchanged,
    unchanged_foreign_pods,
)
from workloads.placement import NodeFacts
from workloads.pods.pod_facts import ENDED


@dataclass(frozen=True)
class ForeignPodSink(OneByOne):
    """Pods that the portal did not make: what they use of nodes is not available to the portal's."""

    @override
    @transaction.atomic
    def one(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None:
        nodes = record_foreign_pod(manifest, cluster=cluster, now=now, gone=gone)
        foreign_use_changed(nodes, cluster=cluster, now=now)

    @override
    def unchanged(self, page: Sequence[Mapping[str, Any]]) -> set[str]:
        return unchanged_foreign_pods(page)

    @override
    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        for record in lacking(ForeignPod.objects.of(client.cluster), present):
            ref = ObjectRef("v1", "Pod", record.namespace, record.name)
            # A pod that has ended still exists, and holds nothing.
            if not still_there(client, ref, record.uid, lacking=ENDED):
                with transaction.atomic():
                    record.delete()
                    foreign_use_changed({record.node_name}, cluster=client.cluster, now=now)


@dataclass(frozen=True)
class NodeSink(OneByOne):
    @override
    @transaction.atomic
    def one(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None:
        known = NodeRecord.objects.filter(uid=manifest["metadata"]["uid"], gone_at__isnull=True).first()
        before = [(known.facts, known.offers)] if known else []
        record = record_node(manifest, cluster=cluster, now=now, gone=gone)
        after = [] if gone else [(record.facts, record.offers)]
        # A heartbeat changes none of these.
        if before != after:
            nodes_changed([facts for facts, _ in (*before, *after)], now=now)

    @override
    def unchanged(self, page: Sequence[Mapping[str, Any]]) -> set[str]:
        return unchanged(NodeRecord, page)

    @override
    def reached(self, *, cluster: str) -> str:
        return latest_version(NodeRecord.objects.of(cluster))

    @override
    def went_back(self, *, cluster: str, version: str) -> None:
        forget_later(NodeRecord.objects.of(cluster), version=version)

    @override
    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        there = NodeRecord.objects.of(client.cluster).filter(gone_at__isnull=True)
        for record in lacking(there, present):
            if not still_there(client, ObjectRef("v1", "Node", "", record.name), record.uid):
                with transaction.atomic():
                    nodes_changed([mark_node_gone(record, now=now).facts], now=now)
        # Of nodes that a list finds unchanged no history may be kept yet.
        keep_histories(cluster=client.cluster, now=now)


@dataclass(frozen=True)
class NodePoolSink(OneByOne):
    """Karpenter's NodePools; few, and listed completely, so that one missing from a list is gone."""

    @override
    @transaction.atomic
    def one(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None:
        known = NodePoolRecord.objects.filter(uid=manifest["metadata"]["uid"]).first()
        before = [pool_facts(known)] if known else []
        if gone:
            NodePoolRecord.objects.filter(uid=manifest["metadata"]["uid"]).delete()
        after = [] if gone else [pool_facts(record_node_pool(manifest, cluster=cluster, now=now))]
        if before != after:
            look_again(pools_fed_by([*before, *after]), now=now)

    @override
    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        lost = list(NodePoolRecord.objects.of(client.cluster).exclude(uid__in=present))
        with transaction.atomic():
            NodePoolRecord.objects.filter(pk__in=[record.pk for record in lost]).delete()
            look_again(pools_fed_by(pool_facts(record) for record in lost), now=now)


def foreign_use_changed(node_names: set[str], *, cluster: str, now: datetime) -> None:
    """Make the pools of these nodes due, because foreign pods there changed."""
    if node_names:
        # Most nodes of a cluster have no GPU and belong to no pool.
        rows = NodeRecord.objects.of(cluster).filter(name__in=node_names, gone_at__isnull=True)
        nodes_changed([record.facts for record in rows.exclude(allocatable={})], now=now)


def nodes_changed(nodes: Sequence[NodeFacts], *, now: datetime) -> None:
    """Make the pools due that these nodes, before or after the change, belong to."""
    if nodes:
        look_again(pools_near(nodes), now=now)


def look_again(pools: Iterable[tuple[int, str]], *, now: datetime) -> None:
    """Make pools due, by flavor's primary key and capacity type."""
    for flavor_id, capacity_type in sorted(pools):
        mark_due(flavor_id=flavor_id, capacity_type=capacity_type, now=now)
