"""When work must begin to stop so that its last pod ends within what its team's budget has promised it."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F

from budgets.periods import held
from budgets.reservations import close_all, extend, opened
from budgets.spending import Costing, costing, costs_so_far, seconds_left
from budgets.telling import tell_exhausted
from costs.models import Budget, BudgetReservation
from policy.budgets import STOP_MARGIN_SECONDS, MoneyEnd, lasts_until, usd
from workloads.models import Workload

EXTENDED_LEAST_SECONDS = 60
"""A promise that runs out is extended by so much at least, or by what is left of the time limit."""
OBSERVED_STOPS = 20
OBSERVED_MOST_SECONDS = 120


def end_of_money(workload: Workload, started_at: datetime | None, *, now: datetime) -> MoneyEnd | None:
    """The moment at which this workload, which holds a claim, must begin to stop for its team's budget; None where the
    budget does not end it. A promise that has run out is extended first, from what is free.
    """
    if not workload.units:
        return None
    reservation = _open_reservation(workload)
    if reservation is None:
        return None
    if reservation.period.ends_at <= now:
        _open_period(reservation, now)
        reservation = _open_reservation(workload)
        if reservation is None:
            return None
    if not workload.own_kind.ends and reservation.period.budget.endpoints == Budget.Endpoints.ALERT:
        return None
    known = costing()
    end = _end(workload, reservation, started_at, known, now)
    if end is None or not end.stops or end.at > now:
        return end
    if _extended(workload, reservation, started_at, known, now):
        reservation.refresh_from_db()
        end = _end(workload, reservation, started_at, known, now)
    return end


def _open_reservation(workload: Workload) -> BudgetReservation | None:
    rows = BudgetReservation.objects.select_related("period__budget__team")
    return rows.filter(workload=workload, closed_at__isnull=True).first()


def _open_period(reservation: BudgetReservation, now: datetime) -> None:
    """The period of the reservation is over: make the next one's promises."""
    with transaction.atomic():
        budget = held().get(pk=reservation.period.budget_id)
        if opened(budget, now=now) is None:
            # A fixed period is over, and nothing limits its team any more.
            close_all(reservation.period.reservations.all(), now=now)


def _end(
    workload: Workload,
    reservation: BudgetReservation,
    started_at: datetime | None,
    known: Costing,
    now: datetime,
) -> MoneyEnd | None:
    flavor, period = workload.flavor, reservation.period
    if flavor is None:
        return None
    so_far = costs_so_far([workload], now=now, price_book=known.book)[workload.pk]
    money = reservation.granted_micro_usd - (so_far - reservation.base_micro_usd)
    start = int(now.timestamp())
    lasts = lasts_until(known.prices(workload), workload.units * flavor.gpu_fraction, start, money)
    left = seconds_left(workload, started_at, now)
    if lasts is None or (left is not None and lasts >= start + left + known.tail):
        return None
    if lasts >= int(period.ends_at.timestamp()):
        return MoneyEnd(period.ends_at, stops=False)
    at = lasts - known.grace - _margin(known.grace)
    amount = usd(reservation.granted_micro_usd)
    message = (
        f"The budget of team {workload.team.slug} had {amount} for it and has nothing free beyond that: "
        f"it is stopped so that it ends within it."
    )
    return MoneyEnd(datetime.fromtimestamp(at, tz=UTC), stops=True, message=message)


def _margin(grace: int) -> int:
    """Seconds beyond the grace period that stopping takes: the most that was seen lately."""
    seen = BudgetReservation.objects.filter(stop_asked_at__isnull=False, closed_at__isnull=False)
    lately = seen.order_by(F("closed_at").desc()).values_list("stop_asked_at", "closed_at")[:OBSERVED_STOPS]
    delays = [int((closed - asked).total_seconds()) - grace for asked, closed in lately if closed and asked]
    return min(max([STOP_MARGIN_SECONDS, *delays]), OBSERVED_MOST_SECONDS)


def _extended(
    workload: Workload,
    reservation: BudgetReservation,
    started_at: datetime | None,
    known: Costing,
    now: datetime,
) -> bool:
    left, ends_at = seconds_left(workload, started_at, now), reservation.period.ends_at
    further = EXTENDED_LEAST_SECONDS + _margin(known.grace)
    least = known.need(workload, further if left is None else min(left, further), now=now, ends_at=ends_at)
    whole = known.need(workload, left, now=now, ends_at=ends_at)
    so_far = costs_so_far([workload], now=now, price_book=known.book)[workload.pk]
    return extend(reservation, least=min(least.whole, whole.whole), whole=whole.whole, so_far=so_far, now=now)


def stop_asked(workload: Workload, *, now: datetime) -> None:
    """The workload, whose row is held, begins to stop for its budget; people are told, once in a period."""
    rows = BudgetReservation.objects.filter(workload=workload, closed_at__isnull=True)
    rows.filter(stop_asked_at__isnull=True).update(stop_asked_at=now)
    reservation = rows.select_related("period__budget__team").first()
    if reservation is not None:
        tell_exhausted(reservation.period, now=now)
