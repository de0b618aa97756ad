"""How much a team may hold: quotas, the cohorts whose members lend to each other, and a team's own rules."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest
from typing_extensions import override

from foundation.ids import new_public_id
from teams.models import Team, User
from workloads.models import CapacityType, ResourceFlavor


class Cohort(models.Model):
    """Teams that lend each other what they do not use; `Team.cohort_name` names the one a team is in."""

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    name = models.CharField(max_length=63, unique=True)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                name="cohort_not_its_own_parent", condition=Q(parent__isnull=True) | ~Q(parent=F("id"))
            )
        ]

    @override
    def __str__(self) -> str:
        return self.name


class CohortUsage(models.Model):
    """What the members of a cohort lend, and what of it is borrowed, of one flavor and capacity type.

    `guaranteed` is the sum of what members lend. The other columns are those of a Quota; `used` counts what the
    members use above their local part. All are derived and kept by `quotas.services` and `quotas.limits`.
    """

    cohort = models.ForeignKey(Cohort, on_delete=models.CASCADE, related_name="usages")
    flavor = models.ForeignKey(ResourceFlavor, on_delete=models.PROTECT, related_name="cohort_usages")
    capacity_type = models.CharField(max_length=16, choices=CapacityType.choices)
    borrowing_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most that the cohort may take from its parent; empty for no limit."
    )
    lending_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most that the cohort lends to its parent; empty for all."
    )
    guaranteed = models.PositiveIntegerField(default=0, editable=False)
    local = models.PositiveIntegerField(default=0, editable=False)
    ceiling = models.PositiveIntegerField(default=0, editable=False)
    used = models.PositiveIntegerField(default=0, editable=False)
    grandfathered = models.PositiveIntegerField(default=0, editable=False)

    class Meta:
        ordering = ["cohort__name", "flavor__name", "capacity_type"]
        constraints = [
            models.UniqueConstraint(fields=["cohort", "flavor", "capacity_type"], name="cohort_usage_unique"),
            models.CheckConstraint(
                name="cohort_never_oversubscribed",
                condition=Q(used__lte=Greatest(F("ceiling"), F("grandfathered"))),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.cohort.name}: {self.used} of {self.ceiling} {self.flavor.name} ({self.capacity_type})"


class Quota(models.Model):
    """What a team may hold of a flavor and capacity type, in units of the flavor.

    `used` counts open claims, of which `headroom` is reserved by endpoints for growth; preemptible runs of the team
    may live on it meanwhile and count in `lent_headroom` instead of `used`. `local` is the part that is never lent,
    `ceiling` the most that borrowing allows; both are derived. A cut below use is allowed: `grandfathered` then keeps
    the old use legal until claims are released, and only a cut may raise it.
    """

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="quotas")
    flavor = models.ForeignKey(ResourceFlavor, on_delete=models.PROTECT, related_name="quotas")
    capacity_type = models.CharField(
        max_length=16, choices=CapacityType.choices, default=CapacityType.ON_DEMAND
    )
    nominal = models.PositiveIntegerField()
    borrowing_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most that is borrowed from the cohort; empty for no limit."
    )
    lending_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most of the nominal quota that is lent; empty for all."
    )
    user_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most that one member holds; empty for no limit."
    )
    max_time_limit_seconds = models.PositiveIntegerField(
        null=True, blank=True, help_text="Longest time limit of a run; empty for no limit."
    )
    local = models.PositiveIntegerField(default=0, editable=False)
    ceiling = models.PositiveIntegerField(default=0, editable=False)
    used = models.PositiveIntegerField(default=0, editable=False)
    grandfathered = models.PositiveIntegerField(default=0, editable=False)
    headroom = models.PositiveIntegerField(default=0, editable=False)
    lent_headroom = models.PositiveIntegerField(default=0, editable=False)
    decayed_use = models.FloatField(
        default=0.0, editable=False, help_text="Unit-seconds of released claims, decayed until decayed_at."
    )
    decayed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["team__slug", "flavor__name", "capacity_type"]
        constraints = [
            models.UniqueConstraint(fields=["team", "flavor", "capacity_type"], name="quota_unique"),
            models.CheckConstraint(
                name="quota_never_oversubscribed",
                condition=Q(used__lte=Greatest(F("ceiling"), F("grandfathered"))),
            ),
            models.CheckConstraint(
                name="quota_headroom_never_overlent",
                condition=Q(lent_headroom__lte=F("headroom"), headroom__lte=F("used")),
            ),
        ]
        indexes = [models.Index(fields=["flavor", "capacity_type"], name="quota_of_pool")]

    @override
    def __str__(self) -> str:
        return f"{self.team.slug}: {self.nominal} {self.flavor.name} ({self.capacity_type})"

    @property
    def available(self) -> int:
        """Units left of the nominal quota; negative while it borrows, and after a cut below use."""
        return self.nominal - self.used


class TeamPolicy(models.Model):
    """A team's own rules of admission; a team without a row has the defaults."""

    class PriorityRight(models.TextChoices):
        MEMBERS = "members"
        LEADS = "leads"
        QUOTA_MANAGERS = "quota-managers"

    team = models.OneToOneField(Team, on_delete=models.CASCADE, related_name="policy")
    weight = models.PositiveIntegerField(
        default=1, help_text="Share of what is contended: use is divided by it."
    )
    high_priority = models.CharField(
        max_length=16,
        choices=PriorityRight.choices,
        default=PriorityRight.LEADS,
        help_text="Who may submit with priority high.",
    )
    may_reserve_headroom = models.BooleanField(
        default=True,
        help_text="Whether its endpoints may keep what they claim for growth, instead of lending it to its runs.",
    )
    shows_name = models.BooleanField(
        default=False, help_text="Whether other teams see its name in their waiting cards."
    )
    ceiling_cpus = models.PositiveIntegerField(
        null=True, blank=True, help_text="CPU cores that it may hold; empty for the platform's ceiling."
    )
    ceiling_memory_gib = models.PositiveIntegerField(
        null=True, blank=True, help_text="GiB of memory that it may hold; empty for the platform's ceiling."
    )
    ceiling_ephemeral_storage_gib = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="GiB of ephemeral storage that it may hold; empty for the platform's ceiling.",
    )
    ceiling_pods = models.PositiveIntegerField(
        null=True, blank=True, help_text="Pods that it may hold; empty for the platform's ceiling."
    )
    ceiling_volumes = models.PositiveIntegerField(
        null=True, blank=True, help_text="Volumes that it may have; empty for the platform's ceiling."
    )
    ceiling_volume_storage_gib = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="GiB that its volumes may have together; empty for the platform's ceiling.",
    )
    queue_stopped_at = models.DateTimeField(null=True, blank=True)
    queue_stopped_by = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    queue_stop_reason = models.TextField(default="", blank=True)

    class Meta:
        verbose_name_plural = "team policies"
        constraints = [
            models.CheckConstraint(name="team_policy_weight_positive", condition=Q(weight__gte=1)),
            models.CheckConstraint(
                name="team_policy_stop_has_reason",
                condition=Q(queue_stopped_at__isnull=True) | ~Q(queue_stop_reason=""),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"policy of {self.team.slug}"
