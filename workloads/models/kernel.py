"""What runs and endpoints have in common: the flavor they ask for, their state, their tries and their history."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Func, Q
from typing_extensions import override

from cluster.names import DEFAULT_CLUSTER
from foundation.ids import new_public_id, short_id
from teams.models import Team, User
from workloads.kinds import WorkloadKind, kind_of
from workloads.placement import FlavorFacts, Sharing
from workloads.states import FINAL, Desired, Phase, Priority, Reason


def _choices(*values: str) -> list[tuple[str, str]]:
    return [(value, value) for value in values]


class CapacityType(models.TextChoices):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class ResourceFlavor(models.Model):
    """What can be asked for: a GPU model, a MIG profile or a share, on the nodes its labels select."""

    name = models.CharField(max_length=63, unique=True)
    card = models.CharField(max_length=63, help_text="The physical card, which is what has a price.")
    resource = models.CharField(max_length=63, default="nvidia.com/gpu")
    fraction_numerator = models.PositiveIntegerField(default=1)
    fraction_denominator = models.PositiveIntegerField(default=1)
    memory_gib = models.PositiveIntegerField(default=0, help_text="GPU memory per unit.")
    sharing = models.CharField(max_length=12, choices=_choices(*Sharing), default=Sharing.NONE.value)
    node_selector = models.JSONField(default=dict, blank=True)
    tolerations = models.JSONField(default=list, blank=True)
    capacity = models.JSONField(default=dict)
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                name="flavor_fraction_of_one_card",
                condition=Q(fraction_numerator__gte=1, fraction_numerator__lte=F("fraction_denominator")),
            )
        ]

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def gpu_fraction(self) -> Fraction:
        """Exact share of one card that a unit is."""
        return Fraction(self.fraction_numerator, self.fraction_denominator)

    @property
    def facts(self) -> FlavorFacts:
        return FlavorFacts(
            name=self.name,
            resource=self.resource,
            card=self.card,
            gpu_fraction=self.gpu_fraction,
            sharing=Sharing(self.sharing),
            node_selector=self.node_selector,
            tolerations=self.tolerations,
            capacity=self.capacity,
        )


class Workload(models.Model):
    """The row is the queue: `next_reconcile_at` says when to look, `lock_token` who looks."""

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    kind = models.CharField(max_length=32)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="workloads")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="workloads")
    name = models.CharField(max_length=40)
    words = models.GeneratedField(
        expression=Func(F("name"), function="workloads_beginnings_of"),
        output_field=SearchVectorField(),
        db_persist=True,
    )
    """The beginnings of the words of the name, which a search finds it by: of `ab-3` they are `a`, `ab` and `3`."""
    priority = models.CharField(max_length=8, choices=_choices(*Priority), default=Priority.NORMAL.value)
    flavor = models.ForeignKey(ResourceFlavor, null=True, on_delete=models.PROTECT, related_name="workloads")
    capacity_type = models.CharField(
        max_length=16, choices=CapacityType.choices, default=CapacityType.ON_DEMAND
    )
    fallback_capacity = models.CharField(
        max_length=16,
        default="",
        blank=True,
        choices=CapacityType.choices,
        help_text="What it waits for once it has waited long enough for its capacity type.",
    )
    units = models.PositiveIntegerField(help_text="Units of the flavor that are claimed, over all pods.")
    units_each = models.PositiveIntegerField(default=0, help_text="Units in one pod.")
    cpu_each = models.BigIntegerField(default=0, help_text="Millicores of CPU that one pod asks for.")
    memory_each = models.BigIntegerField(default=0, help_text="Bytes of memory that one pod asks for.")
    storage_each = models.BigIntegerField(
        default=0, help_text="Bytes of ephemeral storage that one pod asks for."
    )
    cpu_most = models.BigIntegerField(
        default=0, help_text="Millicores that all its pods ask for together, at the most replicas."
    )
    memory_most = models.BigIntegerField(
        default=0, help_text="Bytes of memory that all its pods ask for together, at the most replicas."
    )
    storage_most = models.BigIntegerField(
        default=0,
        help_text="Bytes of ephemeral storage that all its pods ask for together, at the most replicas.",
    )
    pods_most = models.BigIntegerField(default=0, help_text="The most pods that it may have at once.")
    pod_count = models.PositiveIntegerField(default=1, help_text="Pods that need a place for it to start.")
    preemptible = models.BooleanField(
        default=False, help_text="Whether it may have to leave so that others start."
    )
    keeps_headroom = models.BooleanField(
        default=False, help_text="Whether what it claims for pods that it does not run is lent to nobody."
    )
    time_limit_seconds = models.PositiveIntegerField(null=True)
    image_pull_deadline_seconds = models.PositiveIntegerField(
        null=True, help_text="Its own, where not as long as the platform's settings say."
    )
    max_retries = models.PositiveIntegerField(default=0)
    labels = models.JSONField(default=dict)

    phase = models.CharField(max_length=16, choices=_choices(*Phase), default=Phase.QUEUED.value)
    reason = models.CharField(max_length=40, default=Reason.PENDING_EVALUATION.value)
    """One of `Reason`: `transition` refuses others. The column lists none, so that a new one needs no migration."""
    message = models.TextField(default="", blank=True)
    since = models.DateTimeField()
    observed_at = models.DateTimeField(null=True)
    desired = models.CharField(max_length=8, choices=_choices(*Desired), default=Desired.RUN.value)
    desired_reason = models.CharField(
        max_length=40,
        default=Reason.USER_REQUESTED.value,
        help_text="Why it is to be suspended or cancelled: by whom, or by which rule.",
    )
    desired_message = models.TextField(default="", blank=True)
    stopping_to = models.CharField(max_length=16, choices=_choices(*Phase), default="", blank=True)
    generation = models.PositiveIntegerField(default=1)
    observed_generation = models.PositiveIntegerField(default=0)
    attempt_number = models.PositiveIntegerField(default=0)
    retries_used = models.PositiveIntegerField(default=0)
    interruptions = models.PositiveIntegerField(default=0)
    """In a row, with no new checkpoint and little running time between them."""
    used_seconds = models.PositiveIntegerField(
        default=0, help_text="Seconds of Starting and Running over the attempts that have ended."
    )

    created_at = models.DateTimeField()
    queued_at = models.DateTimeField()
    admitted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    called_at = models.DateTimeField(
        null=True, help_text="When somebody last called it while it slept; to a few seconds."
    )

    next_reconcile_at = models.DateTimeField(null=True)
    rests_until = models.DateTimeField(
        null=True, help_text="Before then no pass admits it, whoever wakes it: no node took it the last time."
    )
    failures = models.PositiveIntegerField(default=0, help_text="Reconciles that failed in a row.")
    lock_token = models.UUIDField(null=True)
    lock_expires_at = models.DateTimeField(null=True)
    lock_renewed_at: float = 0
    """When this process took the lock or renewed it, by `time.monotonic`: no column, and known to this process alone."""
    simulated = models.BooleanField(default=False)

    FINAL_PHASES: ClassVar[list[str]] = sorted(FINAL)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "kind", "name"],
                condition=~Q(phase__in=sorted(FINAL)),
                name="workload_name_unique_while_live",
            ),
            models.CheckConstraint(
                name="workload_lock_paired",
                condition=Q(lock_token__isnull=True, lock_expires_at__isnull=True)
                | Q(lock_token__isnull=False, lock_expires_at__isnull=False),
            ),
            models.CheckConstraint(
                name="workload_final_has_end",
                condition=~Q(phase__in=sorted(FINAL)) | Q(finished_at__isnull=False),
            ),
            models.CheckConstraint(
                name="workload_units_need_flavor", condition=Q(units=0) | Q(flavor__isnull=False)
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_reconcile_at"],
                condition=Q(next_reconcile_at__isnull=False),
                name="workload_due",
            ),
            models.Index(
                fields=["flavor", "capacity_type", "team", "priority", "queued_at", "id"],
                condition=Q(phase=Phase.QUEUED.value),
                name="workload_line",
            ),
            models.Index(
                fields=["team", "reason"],
                condition=Q(phase=Phase.QUEUED.value, reason=Reason.WAITING_FOR_TEAM_CEILING.value)
                | Q(phase=Phase.QUEUED.value, flavor__isnull=True),
                name="workload_at_ceiling",
            ),
            models.Index(fields=["kind", "-created_at", "-id"], name="workload_kind_newest"),
            models.Index(fields=["team", "kind", "-created_at", "-id"], name="workload_team_newest"),
            # One for each filter of the lists, in the order in which they are shown: no list is read past its page.
            models.Index(fields=["owner", "kind", "-created_at", "-id"], name="workload_owner_newest"),
            models.Index(fields=["flavor", "kind", "-created_at", "-id"], name="workload_flavor_newest"),
            models.Index(fields=["kind", "phase", "-created_at", "-id"], name="workload_phase_newest"),
            models.Index(
                fields=["team", "kind", "phase", "-created_at", "-id"], name="workload_team_phase_newest"
            ),
            models.Index(fields=["kind", "reason", "-created_at", "-id"], name="workload_reason_newest"),
            models.Index(fields=["kind", "name", "-created_at", "-id"], name="workload_name_newest"),
            # What nearly all have needs no index, what few have only a small one.
            models.Index(
                fields=["kind", "priority", "-created_at", "-id"],
                condition=~Q(priority=Priority.NORMAL.value),
                name="workload_priority_newest",
            ),
            models.Index(
                fields=["kind", "capacity_type", "-created_at", "-id"],
                condition=~Q(capacity_type=CapacityType.ON_DEMAND.value),
                name="workload_capacity_newest",
            ),
            models.Index(
                F("kind"),
                F("finished_at").desc(nulls_last=True),
                F("id").desc(),
                name="workload_kind_last_ended",
            ),
            # However long the past is, few are live, and few have failed lately.
            models.Index(
                fields=["kind", "-created_at", "-id"],
                condition=~Q(phase__in=sorted(FINAL)),
                name="workload_live_newest",
            ),
            models.Index(
                fields=["team", "-finished_at"],
                condition=Q(phase=Phase.FAILED.value),
                name="workload_failed_lately",
            ),
            GinIndex(fields=["words"], fastupdate=False, name="workload_words"),
            GinIndex(
                Func(F("team"), F("words"), function="workloads_words_of_team"),
                fastupdate=False,
                name="workload_words_of_team",
            ),
            GinIndex(fields=["labels"], fastupdate=False, name="workload_labels"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def cluster(self) -> str:
        """The name of the cluster that its attempts run in: there is one, so that no column says it yet."""
        return DEFAULT_CLUSTER

    @property
    def short_id(self) -> str:
        return short_id(self.public_id)

    @property
    def own_kind(self) -> WorkloadKind:
        """What its kind is called, and where it is found. UnknownKind where its app is not installed."""
        return kind_of(self.kind)

    @property
    def page_url(self) -> str:
        """Path of its page."""
        return self.own_kind.page_of(self.public_id)

    @property
    def beside(self) -> tuple[int, int, int]:
        """What each of its pods with units asks for besides."""
        return self.cpu_each, self.memory_each, self.storage_each

    @property
    def most(self) -> tuple[int, int, int, int]:
        """What all its pods ask for besides units, and how many pods they are."""
        return self.cpu_most, self.memory_most, self.storage_most, self.pods_most

    @property
    def is_final(self) -> bool:
        return Phase(self.phase) in FINAL

    @property
    def waits(self) -> bool:
        """Whether it stands in the queue and is to run."""
        return self.phase == Phase.QUEUED.value and self.desired == Desired.RUN.value


class Attempt(models.Model):
    """One try of a workload: one object in the cluster, with no retries of its own."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    object_name = models.CharField(max_length=63)
    object_kind = models.CharField(max_length=120, default="", blank=True)
    """API version and kind, as `batch/v1/Job`; empty in rows of a time when there was one kind for each adapter."""
    object_uid = models.CharField(max_length=64, default="", blank=True)
    phase = models.CharField(max_length=16, choices=_choices(*Phase), default=Phase.ADMITTED.value)
    reason = models.CharField(max_length=40, default="", blank=True)
    message = models.TextField(default="", blank=True)
    exit_code = models.IntegerField(null=True)
    run_token_digest = models.CharField(max_length=64, default="", blank=True)
    resumed_from = models.TextField(default="", blank=True)
    lost_seconds = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["workload_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["workload", "number"], name="attempt_number_unique"),
            models.UniqueConstraint(
                fields=["workload"], condition=Q(ended_at__isnull=True), name="attempt_one_open"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"attempt {self.number} of {self.workload_id}"

    def seconds(self, *, now: datetime) -> int:
        """Whole seconds that it has run, as they count towards the time limit; until `now` if it has not ended."""
        if self.started_at is None:
            return 0
        return max(0, round(((self.ended_at or now) - self.started_at).total_seconds()))


class WorkloadEvent(models.Model):
    """One row for every move of a phase or change of its reason, with who caused it."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    from_phase = models.CharField(max_length=16, default="", blank=True)
    to_phase = models.CharField(max_length=16)
    reason = models.CharField(max_length=40)
    message = models.TextField(default="", blank=True)
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=200, default="", blank=True)
    attempt = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["workload", "-id"], name="event_of_workload")]

    @override
    def __str__(self) -> str:
        return f"{self.from_phase} → {self.to_phase} ({self.reason})"
