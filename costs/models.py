"""What it cost: versioned prices, one usage interval per pod, and an append-only double-entry ledger.

All amounts are integer micro-USD. Prices are per card-hour; a flavor costs its exact fraction of its card.
"""

from __future__ import annotations

from fractions import Fraction

from django.db import models
from django.db.models import ExpressionWrapper, F, Q
from typing_extensions import override

from foundation.ids import new_public_id
from teams.models import Team
from workloads.models import CapacityType, Workload


class PricedCard(models.Model):
    """A card and capacity type that prices are about; its id is the lane of the no-overlap constraint."""

    card = models.CharField(max_length=63)
    capacity_type = models.CharField(max_length=16, choices=CapacityType.choices)
    carry_numerator = models.DecimalField(max_digits=60, decimal_places=0, default=0, editable=False)
    carry_denominator = models.DecimalField(max_digits=60, decimal_places=0, default=1, editable=False)

    class Meta:
        ordering = ["card", "capacity_type"]
        constraints = [models.UniqueConstraint(fields=["card", "capacity_type"], name="priced_card_unique")]

    @override
    def __str__(self) -> str:
        return f"{self.card} ({self.capacity_type})"

    @property
    def carry(self) -> Fraction:
        """Part of a micro-USD that rounding has left over so far; the next line of this card takes it in."""
        return Fraction(int(self.carry_numerator), int(self.carry_denominator))


class Price(models.Model):
    """Micro-USD per card-hour in `[valid_from, valid_until)`; never edited, only followed by the next one."""

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    priced = models.ForeignKey(PricedCard, on_delete=models.PROTECT, related_name="prices")
    micro_usd_per_card_hour = models.BigIntegerField()
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True, blank=True)
    actor = models.CharField(max_length=150)
    reason = models.TextField(default="", blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["priced", "-valid_from"]
        constraints = [
            models.CheckConstraint(name="price_not_negative", condition=Q(micro_usd_per_card_hour__gte=0)),
            models.CheckConstraint(
                name="price_interval_not_empty",
                condition=Q(valid_until__isnull=True) | Q(valid_until__gt=F("valid_from")),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.priced}: {self.micro_usd_per_card_hour} µUSD/h from {self.valid_from:%Y-%m-%d}"


class UsageInterval(models.Model):
    """`[started_at, ended_at)` in which one pod held units of a flavor, by the pod's own API times."""

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="usage")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="usage")
    pod_uid = models.CharField(max_length=64, unique=True)
    node_name = models.CharField(max_length=253, default="", blank=True)
    flavor_name = models.CharField(max_length=63)
    card = models.CharField(max_length=63)
    capacity_type = models.CharField(max_length=16)
    units = models.PositiveIntegerField()
    fraction_numerator = models.PositiveIntegerField()
    fraction_denominator = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    settled_until = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="usage_not_negative",
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
            ),
            models.CheckConstraint(
                name="usage_settled_within",
                condition=Q(settled_until__gte=F("started_at"))
                & (Q(ended_at__isnull=True) | Q(settled_until__lte=F("ended_at"))),
            ),
        ]
        indexes = [
            models.Index(fields=["workload"], name="usage_of_workload"),
            models.Index(
                fields=["ended_at"],
                condition=Q(ended_at__isnull=True) | ~Q(settled_until=F("ended_at")),
                name="usage_unsettled",
            ),
            models.Index(fields=["workload", "-started_at", "-id"], name="usage_newest"),
            # Not partial: PostgreSQL knows how many are unsettled only of an expression that it keeps statistics of.
            models.Index(
                F("workload"),
                ExpressionWrapper(
                    Q(ended_at__isnull=True) | ~Q(settled_until=F("ended_at")),
                    output_field=models.BooleanField(),
                ),
                name="usage_unsettled_of",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.units} {self.flavor_name} from {self.started_at:%Y-%m-%dT%H:%M:%SZ}"

    @property
    def cards(self) -> Fraction:
        """Cards, or the exact part of one, that the pod held."""
        return self.units * Fraction(self.fraction_numerator, self.fraction_denominator)

    @staticmethod
    def unsettled() -> Q:
        """The condition of intervals that the ledger does not hold yet, as the indexes say it."""
        return Q(ended_at__isnull=True) | ~Q(settled_until=F("ended_at"))


class LedgerEntry(models.Model):
    """One side of a posting. The sides of one `transaction_id` add up to 0; rows are never changed."""

    transaction_id = models.UUIDField(db_index=True)
    account = models.CharField(max_length=80, help_text="team:<slug>, or supply:<card>:<capacity>")
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT, related_name="ledger")
    workload = models.ForeignKey(Workload, null=True, on_delete=models.PROTECT, related_name="ledger")
    pod_uid = models.CharField(max_length=64, default="", blank=True)
    node_name = models.CharField(max_length=253, default="", blank=True)
    flavor_name = models.CharField(max_length=63, default="", blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    price = models.ForeignKey(Price, null=True, on_delete=models.PROTECT, related_name="entries")
    units = models.PositiveIntegerField()
    amount_micro_usd = models.BigIntegerField(help_text="Positive: the account pays.")
    reverses = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="reversed_by")
    reason = models.TextField(default="", blank=True)
    posted_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pod_uid", "started_at", "account"],
                condition=Q(reverses__isnull=True) & ~Q(pod_uid=""),
                name="ledger_each_second_once",
            )
        ]
        indexes = [
            models.Index(fields=["workload"], name="ledger_of_workload"),
            models.Index(fields=["team", "started_at"], name="ledger_of_team"),
            models.Index(fields=["pod_uid"], condition=Q(reverses__isnull=False), name="ledger_taken_back"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.account} {self.amount_micro_usd}"


class WorkloadCharge(models.Model):
    """What the ledger charges a team for a workload: the sum of its lines, kept by a trigger of the ledger.

    So that the cost of a workload can be shown without reading all of its lines.
    """

    workload = models.OneToOneField(
        Workload, on_delete=models.PROTECT, primary_key=True, related_name="charge"
    )
    posted_micro_usd = models.BigIntegerField()

    @override
    def __str__(self) -> str:
        return f"{self.workload_id}: {self.posted_micro_usd}"
