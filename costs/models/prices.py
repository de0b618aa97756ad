"""What a card costs an hour, in versions that never change."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from django.db import models
from django.db.models import F, Q
from typing_extensions import override

from foundation.ids import new_public_id
from workloads.models import CapacityType


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

    @carry.setter
    def carry(self, left_over: Fraction) -> None:
        self.carry_numerator = Decimal(left_over.numerator)
        self.carry_denominator = Decimal(left_over.denominator)


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
