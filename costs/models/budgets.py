"""How much a team may spend in a period, and what of that is promised to which work."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest
from typing_extensions import override

from foundation.ids import new_public_id
from teams.models import Team
from workloads.models import Workload


def default_warnings() -> list[int]:
    return [80, 100]


class Budget(models.Model):
    """What a team may spend in each calendar month, or from one day to another; times are midnights UTC.

    The database refuses two of a team at one moment.
    """

    class Period(models.TextChoices):
        MONTH = "month", "each calendar month (UTC)"
        FIXED = "fixed", "from one day to another"

    class Endpoints(models.TextChoices):
        ALERT = "alert", "they go on, and people are told"
        STOP = "stop", "they are stopped"

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="budgets")
    period = models.CharField(max_length=8, choices=Period.choices, default=Period.MONTH)
    starts_at = models.DateTimeField(
        null=True, blank=True, help_text="Of a fixed period: its first midnight."
    )
    ends_at = models.DateTimeField(
        null=True, blank=True, help_text="Of a fixed period: the midnight it ends at."
    )
    amount_micro_usd = models.BigIntegerField()
    warn_percents = ArrayField(
        models.PositiveSmallIntegerField(),
        default=default_warnings,
        blank=True,
        help_text="Percents of the amount at which people are told, such as 80,100.",
    )
    endpoints = models.CharField(
        max_length=8,
        choices=Endpoints.choices,
        default=Endpoints.ALERT,
        help_text="What becomes of endpoints when it is spent.",
    )
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["team__slug", "starts_at", "id"]
        constraints = [
            models.CheckConstraint(name="budget_more_than_nothing", condition=Q(amount_micro_usd__gt=0)),
            models.CheckConstraint(
                name="budget_period_has_its_times",
                condition=Q(period="month", starts_at__isnull=True, ends_at__isnull=True)
                | Q(period="fixed", starts_at__isnull=False, ends_at__gt=F("starts_at")),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.team.slug}: {self.amount_micro_usd} µUSD"


class BudgetPeriod(models.Model):
    """One month of a budget, or its fixed period, and what of its amount is taken.

    `committed` is what is spent, and what of the open reservations is not. New work raises it only up to `ceiling`; what
    is above that already (the amount was cut, or endpoints went on) is `grandfathered`.
    """

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="periods")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    ceiling_micro_usd = models.BigIntegerField(help_text="The amount, with what is given on top of it now.")
    committed_micro_usd = models.BigIntegerField(default=0)
    grandfathered_micro_usd = models.BigIntegerField(default=0)
    told_percents = ArrayField(models.PositiveSmallIntegerField(), default=list)
    told_forecast = models.BooleanField(default=False)

    class Meta:
        ordering = ["budget", "starts_at"]
        constraints = [
            models.UniqueConstraint(fields=["budget", "starts_at"], name="budget_period_once"),
            models.CheckConstraint(
                name="budget_not_overcommitted",
                condition=Q(
                    committed_micro_usd__lte=Greatest("ceiling_micro_usd", "grandfathered_micro_usd")
                ),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.budget}, {self.starts_at:%Y-%m-%d}"


class BudgetReservation(models.Model):
    """What of a period is promised to one workload, from its admission until its last pod is gone.

    `base` is what the workload had cost when the promise was made, so that its cost less `base` is what it has used.
    """

    period = models.ForeignKey(BudgetPeriod, on_delete=models.CASCADE, related_name="reservations")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="reservations")
    base_micro_usd = models.BigIntegerField()
    granted_micro_usd = models.BigIntegerField()
    counts_from = models.DateTimeField(
        null=True, help_text="From when on what it uses is of this promise; none: all that its pods use."
    )
    pods_from = models.DateTimeField(
        null=True, help_text="Pods that began before it are of an earlier admission; none: no pod is."
    )
    opened_at = models.DateTimeField()
    stop_asked_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    used_micro_usd = models.BigIntegerField(null=True, help_text="What it had used when it was closed.")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workload"], condition=Q(closed_at__isnull=True), name="budget_reservation_open_once"
            ),
            models.CheckConstraint(
                name="budget_reservation_not_negative", condition=Q(granted_micro_usd__gte=0)
            ),
        ]
        indexes = [
            models.Index(
                fields=["period"], condition=Q(closed_at__isnull=True), name="budget_reservation_of_period"
            ),
            models.Index(
                fields=["-closed_at"],
                condition=Q(stop_asked_at__isnull=False),
                name="budget_reservation_stopped",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.workload_id}: {self.granted_micro_usd} µUSD"


class ChargeLimit(models.Model):
    """The most that a team pays for what one workload used in a time: what it was promised, when that time was over.

    It outlasts the budget. What the ledger charges beyond it, whenever that turns out, the platform has taken over.
    """

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="charge_limits")
    counts_from = models.DateTimeField(null=True, help_text="As of its reservation.")
    counts_until = models.DateTimeField(help_text="When the period of the promise ended.")
    pods_from = models.DateTimeField(null=True, help_text="As of its reservation.")
    pods_until = models.DateTimeField(
        null=True, help_text="When its last pod was gone: pods that began later are of another admission."
    )
    ended_at = models.DateTimeField(help_text="When it was over; the excess is posted at that time.")
    most_micro_usd = models.BigIntegerField()
    excess_micro_usd = models.BigIntegerField(default=0)
    transaction_id = models.UUIDField(null=True, help_text="The posting of the excess that stands.")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                name="charge_limit_not_negative", condition=Q(most_micro_usd__gte=0, excess_micro_usd__gte=0)
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.workload_id}: {self.most_micro_usd} µUSD"


class BudgetOverride(models.Model):
    """An amount on top of a budget's in one period, until it expires."""

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="overrides")
    amount_micro_usd = models.BigIntegerField()
    reason = models.TextField()
    actor = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="budget_override_more_than_nothing", condition=Q(amount_micro_usd__gt=0)
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.amount_micro_usd} µUSD until {self.expires_at}"
