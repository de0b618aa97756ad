"""Sums of the ledger's lines, kept by a trigger of the ledger, so that a report need not read the lines.

Amounts are micro-USD. A dimension that a sum does not tell apart is 0 or empty, and so is one that a line has not:
these columns are keys of their tables without being references, as the lines have those.
"""

from __future__ import annotations

from datetime import date

from django.db import models
from typing_extensions import override

ALL_TIME = date(1, 1, 1)
"""The period of sums over all there is."""


class Grain(models.TextChoices):
    DAY = "d", "day"
    MONTH = "m", "month"
    ALL = "a", "all time"


class Facet(models.TextChoices):
    """What else a sum tells apart besides team, flavor and price."""

    LANE = "l", "nothing"
    USER = "u", "user"
    PROJECT = "p", "project"


class _Sums(models.Model):
    amount_micro_usd = models.BigIntegerField()
    starting_micro_usd = models.BigIntegerField(default=0)
    running_micro_usd = models.BigIntegerField(default=0)
    stopping_micro_usd = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class CostRollup(_Sums):
    """Sums of a day, a month or all time. Accounts other than teams' are told apart by lane alone; supply is left out.

    The price is part of every key: a card's lines are written under the lock of its row, so that two transactions
    never wait for a sum of each other.
    """

    facet = models.CharField(max_length=1, choices=Facet.choices)
    grain = models.CharField(max_length=1, choices=Grain.choices)
    period = models.DateField(help_text="The first day.")
    account_kind = models.CharField(max_length=16)
    team_id = models.BigIntegerField()
    user_id = models.BigIntegerField()
    project = models.CharField(max_length=63, blank=True)
    flavor_name = models.CharField(max_length=63, blank=True)
    price_id = models.BigIntegerField()
    account = models.CharField(max_length=80, blank=True, help_text="Of an account that is no team's.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    *("facet", "grain", "period", "account_kind", "team_id"),
                    *("user_id", "project", "flavor_name", "price_id", "account"),
                ],
                name="cost_rollup_unique",
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.facet}{self.grain} {self.period}: {self.amount_micro_usd}"


class WorkloadRollup(models.Model):
    """What a team was charged for a workload in a month and in all time: the dearest are first in an index."""

    grain = models.CharField(max_length=1, choices=Grain.choices)
    period = models.DateField(help_text="The first day.")
    workload_id = models.BigIntegerField()
    team_id = models.BigIntegerField()
    amount_micro_usd = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload_id", "grain", "period", "team_id"], name="workload_rollup_unique"
            )
        ]
        indexes = [
            models.Index(fields=["grain", "period", "amount_micro_usd"], name="workload_rollup_dearest"),
            models.Index(
                fields=["team_id", "grain", "period", "amount_micro_usd"], name="workload_rollup_of_team"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.workload_id} {self.period}: {self.amount_micro_usd}"


class WorkloadDay(_Sums):
    """What a team was charged for a workload in a day, with all that is told apart."""

    workload_id = models.BigIntegerField()
    day = models.DateField()
    team_id = models.BigIntegerField()
    user_id = models.BigIntegerField()
    project = models.CharField(max_length=63, blank=True)
    flavor_name = models.CharField(max_length=63, blank=True)
    price_id = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload_id", "day", "team_id", "user_id", "project", "flavor_name", "price_id"],
                name="workload_day_unique",
            )
        ]
        indexes = [
            models.Index(fields=["day"], name="workload_day_of_day"),
            models.Index(fields=["team_id", "day"], name="workload_day_of_team"),
            models.Index(fields=["user_id", "day"], name="workload_day_of_user"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.workload_id} {self.day}: {self.amount_micro_usd}"


class RollupCheck(models.Model):
    """How far the comparison of the sums with the lines has come; there is one."""

    next_day = models.DateField(
        null=True, help_text="The day that is compared next; none: the first there is."
    )
    found_micro_usd = models.BigIntegerField(default=0, help_text="Differences of this round so far.")
    difference_micro_usd = models.BigIntegerField(default=0, help_text="Of the newest round that has ended.")
    round_ended_at = models.DateTimeField(null=True)

    @override
    def __str__(self) -> str:
        return f"{self.next_day}: {self.difference_micro_usd}"
