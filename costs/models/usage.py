"""How long each pod held which part of a card."""

from __future__ import annotations

from fractions import Fraction

from django.db import models
from django.db.models import ExpressionWrapper, F, Q
from typing_extensions import override

from teams.models import Team
from workloads.models import Workload


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
    settled = models.GeneratedField(
        expression=ExpressionWrapper(
            Q(ended_at__isnull=False) & Q(settled_until=F("ended_at")), output_field=models.BooleanField()
        ),
        output_field=models.BooleanField(),
        db_persist=True,
    )
    """Whether the ledger holds all of it. A column, as PostgreSQL keeps statistics of columns: few rows are not settled."""
    evidenced_until = models.DateTimeField(
        null=True,
        help_text="Until when somebody saw the pod, where it ended while nobody watched: the platform pays for the rest.",
    )
    sealed = models.DecimalField(
        max_digits=40,
        decimal_places=0,
        null=True,
        help_text="What the pod's row proved when it was deleted: the sum of seconds x units x price.",
    )

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
            models.Index(fields=["ended_at"], condition=Q(settled=False), name="usage_unsettled"),
            models.Index(fields=["workload"], condition=Q(settled=False), name="usage_unsettled_of"),
            models.Index(fields=["workload", "-started_at", "-id"], name="usage_newest"),
            models.Index(fields=["node_name", "ended_at"], name="usage_on_node"),
            models.Index(fields=["card", "capacity_type", "ended_at"], name="usage_of_lane"),
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
        return Q(settled=False)
