"""Promises of money: made when work is admitted, renewed while it runs, given back when its last pod is gone.

Whoever changes what a period has committed holds its budget's row. Order of locks: workloads, budgets by key, what
workloads were charged, then what `quotas` takes; whom it concerns is woken after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Max, QuerySet, Sum

from budgets.errors import BudgetExceeded
from budgets.periods import held, holding_now, span_of
from budgets.signals import budget_freed
from budgets.spending import (
    accrued_of,
    costing,
    costs_so_far,
    holding_of,
    seconds_left,
    spent_in_period,
)
from costs.ledger.excess import charged, hold_charges, limit_charges
from costs.models import (
    Budget,
    BudgetOverride,
    BudgetPeriod,
    BudgetReservation,
    ChargeLimit,
    UsageInterval,
    WorkloadCharge,
)
from foundation.crashpoints import crash_point
from workloads.models import Workload
from workloads.states import HOLDS_CLAIM


@dataclass(frozen=True)
class Promise:
    """What a workload that is admitted must have and may have of its team's budget, in micro-USD."""

    workload_id: int
    team_id: int
    least: int
    whole: int


def promise(promises: Sequence[Promise], *, now: datetime) -> None:
    """Promise each what it asks for, or what is left, in this order; in the transaction that admits them.

    Raises BudgetExceeded, with the caller's transaction to be rolled back, where less than the least is left.
    """
    teams = {each.team_id for each in promises}
    ended = _ends_of_pods(each.workload_id for each in promises)
    charged = dict(
        WorkloadCharge.objects.filter(workload__in=[each.workload_id for each in promises]).values_list(
            "workload", "posted_micro_usd"
        )
    )
    for period in hold_periods(teams, now=now):
        left = period.ceiling_micro_usd - period.committed_micro_usd
        rows = []
        for each in promises:
            if each.team_id != period.budget.team_id or not each.whole:
                continue
            if left < each.least:
                message = f"{each.least} micro-USD are needed and {max(0, left)} are left of {period.budget}."
                raise BudgetExceeded(message)
            granted = min(each.whole, left)
            left -= granted
            rows.append(
                BudgetReservation(
                    period=period,
                    workload_id=each.workload_id,
                    base_micro_usd=charged.get(each.workload_id, 0),
                    granted_micro_usd=granted,
                    pods_from=ended.get(each.workload_id),
                    opened_at=now,
                )
            )
        if rows:
            BudgetReservation.objects.bulk_create(rows)
            commit(period, period.ceiling_micro_usd - left, now)


def _ends_of_pods(workload_ids: Iterable[int]) -> dict[int, datetime]:
    """When the last pods of earlier admissions ended: those that begin from then on are of the next one."""
    usage = UsageInterval.objects.filter(workload__in=list(workload_ids), ended_at__isnull=False).order_by()
    return dict(usage.values_list("workload").annotate(last=Max("ended_at")))


def hold_periods(team_ids: Iterable[int], *, now: datetime) -> list[BudgetPeriod]:
    """The present periods of these teams' budgets, whose rows are held until the transaction ends."""
    budgets = list(held().filter(holding_now(now), team__in=list(team_ids)).order_by("pk"))
    if len(budgets) > 1:
        # Of all at once, in one order, before any of their periods ends.
        over = BudgetReservation.objects.filter(
            period__budget__in=budgets, period__ends_at__lte=now, closed_at__isnull=True
        )
        hold_charges(list(over.values_list("workload", flat=True)))
    return [period for budget in budgets if (period := opened(budget, now=now)) is not None]


def opened(budget: Budget, *, now: datetime) -> BudgetPeriod | None:
    """The present period of a budget whose row is held, with the ceiling as it is now.

    The first who asks for a period opens it: the promises of the one before end, and new ones are made.
    """
    span = span_of(budget, now)
    if span is None:
        return None
    period, made = BudgetPeriod.objects.get_or_create(
        budget=budget,
        starts_at=span.starts_at,
        defaults={"ends_at": span.ends_at, "ceiling_micro_usd": budget.amount_micro_usd},
    )
    period.budget = budget
    if made:
        _end_before(period, now)
        renew(period, now=now, anew=True)
        budget_freed.send(sender=Budget, team=budget.team, now=now)
        return period
    ceiling = ceiling_of(budget, now)
    if ceiling != period.ceiling_micro_usd:
        period.ceiling_micro_usd = ceiling
        commit(period, period.committed_micro_usd, now, standing=period.committed_micro_usd)
    return period


def ceiling_of(budget: Budget, now: datetime) -> int:
    """Its amount with what is given on top of it now."""
    given = BudgetOverride.objects.filter(budget=budget, expires_at__gt=now)
    return budget.amount_micro_usd + (given.aggregate(sum=Sum("amount_micro_usd"))["sum"] or 0)


def _end_before(period: BudgetPeriod, now: datetime) -> None:
    """Close the promises of the periods before."""
    # Of another budget of the team too, if that one ended where this one begins.
    before = BudgetReservation.objects.filter(period__budget__team=period.budget.team_id)
    close_all(before.exclude(period=period), now=now)


def close_all(reservations: QuerySet[BudgetReservation], *, now: datetime, left: bool = False) -> None:
    """Close those of them that are open, as of the end of their period where that is over; what each used beyond its
    promise is taken over by the platform. In a transaction. `left`: their workloads hold nothing any more.
    """
    _close(reservations, now=now, left=left)


def _open(reservations: QuerySet[BudgetReservation]) -> QuerySet[BudgetReservation]:
    """Those that are not closed, whose rows are held: who opens a team's next budget does not hold the one before it."""
    rows = reservations.filter(closed_at__isnull=True).select_for_update(no_key=True, of=("self",))
    return rows.select_related("workload__team", "workload__flavor", "period__budget__team").order_by("pk")


def renew(period: BudgetPeriod, *, now: datetime, anew: bool = False) -> None:
    """Bring a period whose budget is held up to date: what is spent, the rolling hours of what has no end, and promises
    to what runs without one. With `anew` all promises are made again, in their order, of what is not spent.
    """
    known = costing()
    team = period.budget.team
    work = holding_of(team)
    reservations = {
        row.workload_id: row for row in period.reservations.filter(closed_at__isnull=True).order_by("pk")
    }
    so_far = costs_so_far([row for row, _ in work], now=now, price_book=known.book)
    spent = spent_in_period(team, period, now=now, price_book=known.book)
    left = period.ceiling_micro_usd = ceiling_of(period.budget, now)
    left -= spent
    kept: dict[int, int] = {}
    if not anew:
        for workload, _ in work:
            row = reservations.get(workload.pk)
            if row is not None and workload.own_kind.ends:
                kept[workload.pk] = outstanding_of(row, so_far[workload.pk])
                left -= kept[workload.pk]
    standing = spent + sum(kept.values())
    for workload, began in work:
        if workload.pk in kept:
            continue
        seconds = seconds_left(workload, began, now)
        asked = known.need(workload, seconds, now=now, ends_at=period.ends_at).whole
        row = reservations.get(workload.pk)
        if not asked and row is None:
            continue
        given = min(asked, max(0, left))
        left -= given
        kept[workload.pk] = given
        _grant(period, row, workload, so_far[workload.pk], given, now)
    commit(period, spent + sum(kept.values()), now, standing=standing)


def outstanding_of(row: BudgetReservation, so_far: int) -> int:
    """What of a promise is not used."""
    return max(0, row.granted_micro_usd - max(0, so_far - row.base_micro_usd))


def _grant(
    period: BudgetPeriod,
    row: BudgetReservation | None,
    workload: Workload,
    so_far: int,
    given: int,
    now: datetime,
) -> None:
    if row is None:
        BudgetReservation.objects.create(
            period=period,
            workload=workload,
            base_micro_usd=so_far,
            granted_micro_usd=given,
            counts_from=now.replace(microsecond=0),
            opened_at=now,
        )
        return
    granted = max(0, so_far - row.base_micro_usd) + given
    if granted != row.granted_micro_usd:
        BudgetReservation.objects.filter(pk=row.pk).update(granted_micro_usd=granted)


def commit(period: BudgetPeriod, committed: int, now: datetime, *, standing: int = 0) -> None:
    """Write what is committed of a period whose budget is held. `standing` is what was spent or promised before, whatever
    the ceiling says by now: so much may be above it, and nothing else; the database refuses more.
    """
    before = BudgetPeriod.objects.get(pk=period.pk)
    freed = committed < before.committed_micro_usd or period.ceiling_micro_usd > before.ceiling_micro_usd
    above = max(standing, min(before.grandfathered_micro_usd, committed))
    period.committed_micro_usd = committed
    period.grandfathered_micro_usd = above if above > period.ceiling_micro_usd else 0
    period.save(update_fields=["ceiling_micro_usd", "committed_micro_usd", "grandfathered_micro_usd"])
    if freed:
        budget_freed.send(sender=Budget, team=period.budget.team, now=now)


def close(workload: Workload, *, now: datetime) -> None:
    """Give back what is not used of what the workload was promised, as its last pod is gone; in the transaction that
    releases its claim, and before that. What it used beyond the promise is taken over by the platform.
    """
    if (
        not workload.units
        or not BudgetReservation.objects.filter(workload=workload, closed_at__isnull=True).exists()
    ):
        return
    with transaction.atomic():
        # A team's next budget is opened by who holds it: all of them.
        list(held().filter(team=workload.team_id).order_by("pk"))
        closed = _close(BudgetReservation.objects.filter(workload=workload), now=now, left=True)
        if not closed:
            return
        reservation, used = closed[0]
        period = reservation.period
        # Of a period that is over nothing is promised to anybody any more.
        if span_of(period.budget, now) is not None and period.ends_at > now:
            committed = period.committed_micro_usd + used - reservation.granted_micro_usd
            # What an endpoint that goes on has used beyond its promise nobody was asked for.
            commit(period, committed, now, standing=committed if used > reservation.granted_micro_usd else 0)
        crash_point("budget-given-back")


def _close(
    reservations: QuerySet[BudgetReservation], *, now: datetime, left: bool
) -> list[tuple[BudgetReservation, int]]:
    """Close them, with what of each was used, after what the platform has taken over. `left`: they hold nothing any more."""
    # Charges first: who posts a line holds them, and then writes what promises count from.
    hold_charges(list(reservations.filter(closed_at__isnull=True).values_list("workload", flat=True)))
    rows = list(_open(reservations))
    known, limits, closed = costing(), [], []
    for row in rows:
        limit = _limit_of(row, now=now, left=left)
        used = max(0, charged(limit) + accrued_of(limit, now=now, price_book=known.book))
        if row.workload.own_kind.ends or row.period.budget.endpoints == Budget.Endpoints.STOP:
            limits.append(limit)
            used = min(used, row.granted_micro_usd)
        row.closed_at, row.used_micro_usd = limit.ended_at, used
        row.save(update_fields=["closed_at", "used_micro_usd"])
        closed.append((row, used))
    limit_charges(limits, now=now)
    return closed


def _limit_of(row: BudgetReservation, *, now: datetime, left: bool) -> ChargeLimit:
    """What the team pays at the most for what was promised. A pod of what has left may still turn out to have ended later."""
    ended_at = min(now, row.period.ends_at)
    return ChargeLimit(
        workload=row.workload,
        counts_from=row.counts_from,
        counts_until=row.period.ends_at if left else ended_at.replace(microsecond=0),
        pods_from=row.pods_from,
        pods_until=now if left else None,
        ended_at=ended_at,
        most_micro_usd=row.granted_micro_usd,
    )


def extend(reservation: BudgetReservation, *, least: int, whole: int, so_far: int, now: datetime) -> bool:
    """Promise a workload whose promise runs out so much from now on, or what is left where that is at least `least`;
    False where it is not.
    """
    with transaction.atomic():
        period = opened(held().get(pk=reservation.period.budget_id), now=now)
        row = BudgetReservation.objects.filter(
            workload=reservation.workload_id, closed_at__isnull=True
        ).first()
        if period is None or row is None or row.period_id != period.pk:
            return False
        outstanding = outstanding_of(row, so_far)
        room = max(0, period.ceiling_micro_usd - period.committed_micro_usd) + outstanding
        if room < least or min(whole, room) <= outstanding:
            return False
        more = min(whole, room) - outstanding
        row.granted_micro_usd += more
        row.save(update_fields=["granted_micro_usd"])
        commit(period, period.committed_micro_usd + more, now)
        return True


def close_those_that_left(period: BudgetPeriod, *, now: datetime) -> None:
    """Close promises to workloads that hold nothing any more, whatever has kept that from being done; the caller renews."""
    left = period.reservations.exclude(workload__phase__in=[phase.value for phase in HOLDS_CLAIM])
    close_all(left, now=now, left=True)
