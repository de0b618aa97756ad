"""How far the ledger was recomputed from its evidence, and what differed."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from django.db import models
from typing_extensions import override

from costs.models.prices import PricedCard


class LedgerCheck(models.Model):
    """Where the next step of the check goes on: one row. At the end of a round each begins anew."""

    SINGLETON_PK: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON_PK, editable=False)
    pods_until = models.BigIntegerField(
        default=0, help_text="Rows of pods that were looked for in the ledger."
    )
    usage_until = models.BigIntegerField(
        default=0, help_text="Intervals that were recomputed from their pods."
    )
    lines_until = models.BigIntegerField(
        default=0, help_text="Lines of the ledger that are in the sums of lanes."
    )
    hours_until = models.DateTimeField(null=True, help_text="Hours of nodes that were added up.")
    rounds = models.PositiveBigIntegerField(default=0)
    checked_at = models.DateTimeField(null=True)

    @override
    def __str__(self) -> str:
        return f"round {self.rounds}"


class LaneSum(models.Model):
    """Sums of a card's lines up to `LedgerCheck.lines_until`: what was posted, and what it cost exactly."""

    priced = models.OneToOneField(
        PricedCard, on_delete=models.PROTECT, primary_key=True, related_name="lane_sum"
    )
    amount_micro_usd = models.BigIntegerField(default=0)
    cost_numerator = models.DecimalField(max_digits=80, decimal_places=0, default=0)
    cost_denominator = models.DecimalField(max_digits=40, decimal_places=0, default=1)

    @override
    def __str__(self) -> str:
        return f"{self.amount_micro_usd} of {self.priced_id}"

    @property
    def cost(self) -> Fraction:
        """Micro-USD of pods, unrounded."""
        return Fraction(int(self.cost_numerator), int(self.cost_denominator))


class LedgerFault(models.Model):
    """Something whose lines are not what its evidence says. It goes when it is found right again."""

    class About(models.TextChoices):
        POD = "pod", "A pod"
        NODE = "node", "A node in an hour"
        LANE = "lane", "A card and capacity type"

    about = models.CharField(max_length=8, choices=About.choices)
    key = models.CharField(max_length=400)
    difference_micro_usd = models.BigIntegerField(
        help_text="What the ledger has too much; rounded away from 0."
    )
    message = models.TextField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["about", "key"]
        constraints = [models.UniqueConstraint(fields=["about", "key"], name="ledger_fault_once")]

    @override
    def __str__(self) -> str:
        return f"{self.about} {self.key}: {self.difference_micro_usd}"
