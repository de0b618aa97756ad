"""What the API server showed: pods, objects and nodes, their logs, and how far each watch has come."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q
from typing_extensions import override

from cluster.names import DEFAULT_CLUSTER
from workloads.models.in_cluster import InCluster
from workloads.models.kernel import Workload
from workloads.placement import NodeFacts
from workloads.podrequests import Others, others_offered

JOB_COMPLETION, NODE_GONE = "job-completion", "node-gone"
"""What bounds the end of a pod that vanished: the first says when it ended, the second when it had at the latest."""
COLLECTED = Q(disruption="DeletionByPodGC", exit_code__isnull=True)
"""Pods that were ended for their node alone, which has gone: none of their containers said when it ended."""


class PodRecord(models.Model):
    """A pod as the API server described it; its times are what money is made of."""

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="pods")
    attempt = models.PositiveIntegerField()
    resource_version = models.CharField(max_length=32)
    phase = models.CharField(max_length=16, default="", blank=True)
    ready = models.BooleanField(default=False)
    restarts = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=63, default="", blank=True)
    message = models.TextField(default="", blank=True)
    node_name = models.CharField(max_length=253, default="", blank=True)
    units = models.PositiveIntegerField(default=0)
    cpu_millicores = models.BigIntegerField(default=0, help_text="What it takes of its node besides GPUs.")
    memory_bytes = models.BigIntegerField(default=0)
    storage_bytes = models.BigIntegerField(default=0)
    image_id = models.CharField(
        max_length=1024,
        default="",
        blank=True,
        help_text="What the runtime says that it ran, with its digest.",
    )
    exit_code = models.IntegerField(null=True)
    disruption = models.CharField(
        max_length=63,
        default="",
        blank=True,
        help_text="Why something in the cluster took it away, in its word.",
    )
    evidence = models.JSONField(
        default=dict,
        blank=True,
        help_text="What its status says of trouble, as workloads.pods.evidence keeps it.",
    )
    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    deletion_at = models.DateTimeField(null=True, help_text="When its grace period ends, once it is deleted.")
    deletion_asked_at = models.DateTimeField(
        null=True, help_text="When it was deleted, and so began to stop; the grace period before deletion_at."
    )
    gone_at = models.DateTimeField(null=True, help_text="First time that it was observed to be absent.")
    seen_until = models.DateTimeField(
        null=True,
        help_text="Of one that is gone: the last moment for which it is evidenced that it was there.",
    )
    bounded_at = models.DateTimeField(
        null=True, help_text="When it had ended at the latest, by another object."
    )
    bounded_by = models.CharField(
        max_length=32,
        default="",
        db_default="",
        blank=True,
        help_text="What says so: job-completion, or node-gone.",
    )

    objects = InCluster.as_manager()

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [
            models.Index(fields=["workload", "attempt"], name="pod_of_attempt"),
            models.Index(fields=["created_at"], condition=Q(gone_at__isnull=True), name="pod_still_there"),
            models.Index(fields=["workload"], condition=Q(gone_at__isnull=True), name="pod_there_of"),
            models.Index(fields=["workload", "-created_at", "-id"], name="pod_newest_of"),
            models.Index(fields=["workload", "id"], name="pod_in_order_of"),
            models.Index(fields=["gone_at"], condition=Q(gone_at__isnull=False), name="pod_gone"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def image_digest(self) -> str | None:
        """Of the image that really ran, such as sha256:…; None before it was pulled."""
        return self.image_id.rpartition("@")[2] or None

    @property
    def stops_from(self) -> datetime | None:
        """When it was asked to end. Of one that was deleted before this was kept, the end of its grace period is known."""
        return self.deletion_asked_at or self.deletion_at

    @property
    def ended_at(self) -> datetime | None:
        """When it stopped holding its GPUs, by the API's own times (docs/explanation/money.md)."""
        if self.finished_at is not None:
            left_at = self.bounded_at if self.collected and self.bounded_by == NODE_GONE else None
            return min(self.finished_at, left_at or self.finished_at)
        if self.gone_at is None:
            return None
        return min(bound for bound in (self.deletion_at, self.bounded_at, self.gone_at) if bound is not None)

    @property
    def collected(self) -> bool:
        """Whether it is one of those that were `COLLECTED`: when it says that it ended, its node had gone before."""
        return self.disruption == "DeletionByPodGC" and self.exit_code is None

    @property
    def certain_until(self) -> datetime | None:
        """The end, where the cluster tells it. Of one that vanished while nobody watched it is known only that it had
        ended by `ended_at`, and was there at this moment.
        """
        end = self.ended_at
        if self.finished_at is not None:
            return end
        told = {self.deletion_at, None if self.bounded_by == NODE_GONE else self.bounded_at}
        return end if end is None or end in told or self.seen_until is None else min(end, self.seen_until)


class ObjectRecord(models.Model):
    """An object that the portal made, with the identity that proves it is the portal's."""

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True)
    api_version = models.CharField(max_length=63)
    kind = models.CharField(max_length=63)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="object_records")
    attempt = models.PositiveIntegerField()
    resource_version = models.CharField(max_length=32)
    status = models.JSONField(
        default=dict, blank=True, help_text="Its conditions, and what else its status says of trouble."
    )
    created_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    objects = InCluster.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["workload", "kind"], name="object_of_workload"),
            models.Index(fields=["kind"], condition=Q(gone_at__isnull=True), name="object_still_there"),
            models.Index(fields=["gone_at"], condition=Q(gone_at__isnull=False), name="object_gone"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class NodeRecord(models.Model):
    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=253)
    resource_version = models.CharField(max_length=32)
    labels = models.JSONField(default=dict)
    taints = models.JSONField(default=list)
    allocatable = models.JSONField(default=dict, help_text="Whole units of extended resources.")
    others = models.JSONField(
        default=dict, help_text="Quantities of all other resources: cpu, memory, what else its plugins offer."
    )
    capacity = models.JSONField(default=dict, help_text="Extended resources that it has, usable or not.")
    conditions = models.JSONField(default=list, help_text="Those that are not as they should be.")
    ready = models.BooleanField(default=False)
    unschedulable = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    objects = InCluster.as_manager()

    WATCH: ClassVar[str] = "Node"
    """The kind of the WatchCursor that says how old the rows are."""

    class Meta:
        ordering = ["name"]
        indexes = [
            models.Index(fields=["name"], name="node_name"),
            models.Index(fields=["name"], condition=Q(gone_at__isnull=True), name="node_still_there"),
            models.Index(fields=["gone_at"], condition=Q(gone_at__isnull=False), name="node_gone"),
        ]

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def facts(self) -> NodeFacts:
        allocatable: dict[str, Any] = self.allocatable
        return NodeFacts(
            name=self.name,
            labels=self.labels,
            allocatable={key: int(value) for key, value in allocatable.items()},
            ready=self.ready,
            unschedulable=self.unschedulable,
            taints=self.taints,
        )

    @property
    def offers(self) -> Others:
        """What it has for pods besides GPUs."""
        return others_offered(self.others)


class NodeInterval(models.Model):
    """`[started_at, ended_at)` in which a node had cards of one model, and the flavors offered so much of them; in whole
    seconds. `ended_at` is null while that is so.

    An input of the bill, kept as long as the ledger: what is written is closed, and never made otherwise. Rows of a time
    that is past may come later, where it was not known that the node was there.
    """

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    node_uid = models.CharField(max_length=64)
    node_name = models.CharField(max_length=253)
    card = models.CharField(max_length=63)
    capacity_type = models.CharField(max_length=16)
    cards = models.PositiveIntegerField(help_text="Physical cards, usable or not.")
    offered_numerator = models.PositiveBigIntegerField(help_text="What of the cards the flavors offer.")
    offered_denominator = models.PositiveBigIntegerField(default=1)
    resources = models.JSONField(
        default=dict, help_text="Usable units by resource name, and which fraction of a card one is."
    )
    certain = models.BooleanField(
        default=True,
        help_text="False for a time in which nobody watched, and at whose end the node was another or gone.",
    )
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    objects = InCluster.as_manager()

    class Meta:
        ordering = ["started_at", "id"]
        constraints = [
            models.CheckConstraint(
                name="node_interval_not_empty",
                condition=Q(ended_at__isnull=True) | Q(ended_at__gt=F("started_at")),
            ),
            models.CheckConstraint(
                name="node_interval_offers_of_its_cards",
                condition=Q(offered_denominator__gte=1)
                & Q(offered_numerator__lte=F("cards") * F("offered_denominator")),
            ),
        ]
        indexes = [
            models.Index(fields=["node_uid", "started_at"], name="node_interval_of_node"),
            models.Index(fields=["ended_at"], name="node_interval_end"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.cards} {self.card} of {self.node_name} from {self.started_at:%Y-%m-%dT%H:%M:%SZ}"

    @property
    def offered(self) -> Fraction:
        """Cards that pods of some flavor can have."""
        return Fraction(self.offered_numerator, self.offered_denominator)

    @property
    def stranded(self) -> Fraction:
        """Cards that pods of no flavor can have."""
        return self.cards - self.offered


class ForeignPod(models.Model):
    """A pod on a node, not made by the portal: what it takes is not available to others."""

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    node_name = models.CharField(max_length=253)
    requests = models.JSONField(default=dict, help_text="Whole units of extended resources.")
    cpu_millicores = models.BigIntegerField(default=0, help_text="What it takes of its node besides GPUs.")
    memory_bytes = models.BigIntegerField(default=0)
    storage_bytes = models.BigIntegerField(default=0)
    seen_at = models.DateTimeField()

    objects = InCluster.as_manager()

    class Meta:
        indexes = [models.Index(fields=["node_name"], name="foreign_pod_of_node")]

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class StrayObject(models.Model):
    """An object that bears the portal's mark but belongs to no existing workload: after a restore from a backup that
    is older than the cluster. It exists, may hold GPUs, and no team pays for it.
    """

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True)
    api_version = models.CharField(max_length=63)
    kind = models.CharField(max_length=63)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    owned = models.BooleanField(help_text="Another object owns it and takes it along.")
    said_workload = models.CharField(max_length=63, help_text="The id in its label.")
    units = models.PositiveIntegerField(default=0, help_text="GPUs of a pod that is on a node.")
    created_at = models.DateTimeField()
    found_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, help_text="When somebody asked for it to go.")

    objects = InCluster.as_manager()

    class Meta:
        indexes = [models.Index(fields=["api_version", "kind"], name="stray_of_kind")]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class NodePoolRecord(models.Model):
    """A Karpenter NodePool: what it may still bring, where the API server serves such."""

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=253)
    labels = models.JSONField(default=dict, help_text="Labels that its nodes get.")
    requirements = models.JSONField(default=list, help_text="What its nodes may be, as node-selector terms.")
    taints = models.JSONField(default=list)
    limits = models.JSONField(
        default=dict, help_text="Whole units of extended resources; absent for no limit."
    )
    in_use = models.JSONField(default=dict, help_text="Whole units that its nodes have already.")
    observed_at = models.DateTimeField()

    objects = InCluster.as_manager()

    class Meta:
        ordering = ["name"]

    @override
    def __str__(self) -> str:
        return self.name


class ClaimRecord(models.Model):
    """A PersistentVolumeClaim that exists, whether the portal or someone else made it."""

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    access_modes = models.JSONField(default=list)
    storage_bytes = models.BigIntegerField(
        default=0, help_text="What it asks for, or has where that is more."
    )
    phase = models.CharField(
        max_length=16, help_text="The claim's own; Terminating while it is being deleted."
    )
    observed_at = models.DateTimeField()

    objects = InCluster.as_manager()

    class Meta:
        indexes = [models.Index(fields=["namespace", "name"], name="claim_record_by_name")]

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class LogChunk(models.Model):
    """Index row of at most 256 KiB of a pod's log in the log store, kept after the pod is gone."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="log_chunks")
    attempt = models.PositiveIntegerField()
    pod_uid = models.CharField(max_length=64)
    pod_name = models.CharField(max_length=253)
    container = models.CharField(max_length=63, default="", blank=True)
    sequence = models.PositiveIntegerField()
    storage_key = models.CharField(max_length=255)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    lines = models.PositiveIntegerField()
    size_bytes = models.PositiveIntegerField()
    first_line = models.PositiveBigIntegerField(default=1)
    """The number of its first line in the container's log; it stays when what was before has expired."""
    stored_at = models.DateTimeField()
    """From then on its retention counts, as long as that is today."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pod_uid", "container", "sequence"], name="log_chunk_in_order")
        ]
        indexes = [
            models.Index(fields=["workload", "attempt", "first_at"], name="log_of_attempt"),
            models.Index(fields=["stored_at"], name="log_stored"),
        ]

    @override
    def __str__(self) -> str:
        return self.storage_key


class WatchCursor(models.Model):
    """Where a watch stands: resume point, and how old what the portal knows is."""

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    kind = models.CharField(max_length=63)
    resource_version = models.CharField(max_length=32, default="", blank=True)
    listed_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)

    objects = InCluster.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "kind"], name="watch_cursor_unique")]

    @override
    def __str__(self) -> str:
        return f"{self.kind} @ {self.resource_version}"
