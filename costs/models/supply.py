"""What nodes offered and nobody held, and how far it was counted."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from django.db import models
from django.db.models import Q
from typing_extensions import override

from costs.models.prices import Price, PricedCard


class IdleSpan(models.Model):
    """Card-seconds of one node, in a part of an hour at one price, that no pod pays for; exact, as it stands now.

    The ledger has its posting and keeps what was posted before; when usage or the node's history is corrected, the row is
    replaced.
    """

    class Kind(models.TextChoices):
        IDLE = "idle", "A flavor offers it and no pod held it"
        STRANDED = "stranded", "No flavor can use it"
        UNCERTAIN = "uncertain", "Nobody watched the node, so it is not known whether it was there"
        OVERHELD = "overheld", "Pods held more than the node had"

    priced = models.ForeignKey(PricedCard, on_delete=models.PROTECT, related_name="idle_spans")
    node_name = models.CharField(max_length=253)
    node_uid = models.CharField(max_length=64, default="", blank=True)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    seconds_numerator = models.BigIntegerField(help_text="Card-seconds.")
    seconds_denominator = models.BigIntegerField(default=1)
    price = models.ForeignKey(Price, on_delete=models.PROTECT, related_name="idle_spans")
    transaction_id = models.UUIDField(help_text="Its posting in the ledger.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="idle_span_is_some", condition=Q(seconds_numerator__gt=0, seconds_denominator__gt=0)
            ),
            models.UniqueConstraint(
                fields=["priced", "node_name", "started_at", "kind", "node_uid"], name="idle_span_once"
            ),
        ]
        indexes = [models.Index(fields=["priced", "started_at"], name="idle_span_of_lane")]

    @override
    def __str__(self) -> str:
        return f"{self.card_seconds} card-seconds {self.kind} of {self.node_name}"

    @property
    def card_seconds(self) -> Fraction:
        """Cards times seconds."""
        return Fraction(self.seconds_numerator, self.seconds_denominator)


class SupplyCursor(models.Model):
    """How far idle capacity was counted: one row.

    A change of what lies before `claimed_until` leaves a mark. Counting follows a claim of an earlier turn, so that no
    transaction is left that did not know of it.
    """

    SINGLETON_PK: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON_PK, editable=False)
    began_at = models.DateTimeField(help_text="When the history of nodes begins.")
    swept_until = models.DateTimeField()
    claimed_until = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return f"swept until {self.swept_until:%Y-%m-%dT%H:%M:%SZ}"


class SupplyMark(models.Model):
    """A time of a node that has to be counted again: usage, the node's history or a price changed. Triggers write it, in
    the transaction of the change.
    """

    card = models.CharField(max_length=63)
    capacity_type = models.CharField(max_length=16)
    node_name = models.CharField(max_length=253, default="", blank=True, help_text="Empty: all of the card.")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="Null: until now.")

    class Meta:
        indexes = [models.Index(fields=["card", "capacity_type", "started_at"], name="supply_mark_of_lane")]

    @override
    def __str__(self) -> str:
        return f"{self.card} of {self.node_name} from {self.started_at:%Y-%m-%dT%H:%M:%SZ}"
