"""What a budget may be."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from costs.models import Budget
from foundation.errors import Invalid

AMOUNT_MAX = 1_000_000_000_000_000
"""A billion dollars, in micro-USD."""
PERCENT_MAX = 1000
WARNINGS_MAX = 10


def check_values(budget: Budget, now: datetime) -> None:
    """Raise Invalid, naming the field, for a budget that cannot be; for a second one of its team too."""
    if not 0 < budget.amount_micro_usd <= AMOUNT_MAX:
        message = "A budget is more than 0 and at most a billion dollars."
        raise Invalid.of_field("amount_micro_usd", message, code="out_of_range")
    _check_warnings(budget)
    _check_period(budget, now)
    others = Budget.objects.filter(team=budget.team).exclude(pk=budget.pk)
    if budget.starts_at is not None and budget.ends_at is not None:
        apart = Q(ends_at__lte=budget.starts_at) | Q(starts_at__gte=budget.ends_at)
        others = others.exclude(apart)
    other = others.first()
    if other is not None:
        field = "starts_on" if budget.period == Budget.Period.FIXED else "team"
        what = "for each month" if other.starts_at is None else f"from {other.starts_at:%Y-%m-%d}"
        until = "" if other.ends_at is None else f" to {other.ends_at:%Y-%m-%d}"
        message = f"Team {budget.team.slug} has a budget {what}{until} already; two at a time are none."
        raise Invalid.of_field(field, message, code="overlap")


def _check_warnings(budget: Budget) -> None:
    warnings = sorted(set(budget.warn_percents))
    if len(warnings) > WARNINGS_MAX or any(not 0 < each <= PERCENT_MAX for each in warnings):
        message = f"At most {WARNINGS_MAX} percents from 1 to {PERCENT_MAX}."
        raise Invalid.of_field("warn_percents", message, code="out_of_range")
    budget.warn_percents = warnings


def _check_period(budget: Budget, now: datetime) -> None:
    starts_at, ends_at = budget.starts_at, budget.ends_at
    if budget.period == Budget.Period.MONTH:
        for field, value in (("starts_on", starts_at), ("ends_on", ends_at)):
            if value is not None:
                raise Invalid.of_field(
                    field, "A budget of each month has no days of its own.", code="not_fixed"
                )
        return
    for field, value in (("starts_on", starts_at), ("ends_on", ends_at)):
        if value is None:
            raise Invalid.of_field(field, "A fixed period goes from one day to another.", code="required")
    if starts_at is not None and ends_at is not None:
        if ends_at <= starts_at:
            raise Invalid.of_field(
                "ends_on", "The period ends before it begins.", code="ends_before_it_begins"
            )
        if ends_at <= now:
            raise Invalid.of_field("ends_on", "The period is over already.", code="over")
