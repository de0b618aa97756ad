"""What is used and not posted yet, to this second: as `costs.queries.costs_of` counts it, cut to a window."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from costs.models import UsageInterval
from costs.pricing import SECONDS_PER_HOUR, PriceSpan, has_price_at_end, priced_segments
from costs.queries import PriceBook
from costs.reports.groups import CostFilters
from costs.reports.windows import CostWindow, midnight, next_month
from workloads.models import PodRecord

PROJECT_LABEL = "project"
_COLUMNS = (
    *("workload_id", "team_id", "workload__owner_id", "workload__labels", "flavor_name", "card"),
    *("capacity_type", "units", "fraction_numerator", "fraction_denominator"),
    *("started_at", "ended_at", "settled_until"),
)


@dataclass(frozen=True)
class Running:
    """One pod's part that is not posted. Not `priced` where its price is not known yet."""

    workload_id: int
    team_id: int
    user_id: int
    project: str
    flavor_name: str
    capacity_type: str
    parts: tuple[tuple[str, int], ...]
    """Micro-USD by what it is grouped by in time or phase; of other groups one part of no name."""
    priced: bool


@dataclass(frozen=True)
class _Accrual:
    """Micro-USD from `start` on, rounded down at each moment: parts add up to the whole."""

    start: datetime
    end: datetime
    spans: Sequence[PriceSpan]
    numerator: int
    denominator: int

    def until(self, moment: datetime) -> int:
        if moment <= self.start:
            return 0
        total = 0
        for segment in priced_segments(self.start, min(moment, self.end), self.spans):
            length = (segment.end - segment.start) // timedelta(microseconds=1)
            total += length * segment.span.micro_usd_per_card_hour
        return total * self.numerator // (self.denominator * SECONDS_PER_HOUR * 1_000_000)

    @property
    def priced(self) -> bool:
        segments = list(priced_segments(self.start, self.end, self.spans))
        return has_price_at_end(segments, self.start, self.end)


def running(
    *,
    teams: Collection[int] | None,
    window: CostWindow,
    group_by: str,
    now: datetime,
    prices: PriceBook,
    filters: CostFilters,
) -> Iterator[Running]:
    """The pods that have something in the window that is not posted."""
    rows = UsageInterval.objects.filter(UsageInterval.unsettled(), _chosen(teams, filters))
    if window.end is not None:
        rows = rows.filter(settled_until__lt=window.end)
    if window.start is not None:
        rows = rows.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=window.start))
    columns = list(_COLUMNS)
    if group_by == "phase":
        pod = PodRecord.objects.filter(uid=OuterRef("pod_uid"))
        rows = rows.annotate(
            ready_from=Subquery(pod.values("started_at")[:1]),
            asked_to_stop=Subquery(pod.values(at=Coalesce("deletion_asked_at", "deletion_at"))[:1]),
        )
    else:
        rows = rows.annotate(ready_from=F("started_at"), asked_to_stop=F("ended_at"))
    for row in rows.order_by().values_list(*columns, "ready_from", "asked_to_stop"):
        found = _running(row, window, group_by, now, prices)
        if filters.projects is None or found.project in filters.projects:
            yield found


def _chosen(teams: Collection[int] | None, filters: CostFilters) -> Q:
    chosen = {
        "team__in": teams,
        "workload__owner__in": filters.users,
        "flavor_name__in": filters.flavors,
        "capacity_type__in": filters.capacities,
    }
    return Q(**{name: list(values) for name, values in chosen.items() if values is not None})


def _running(
    row: Sequence[Any], window: CostWindow, group_by: str, now: datetime, prices: PriceBook
) -> Running:
    workload, team, owner, labels, flavor, card, capacity, units, numerator, denominator, *times = row
    _, ended_at, settled_until, ready_from, asked_to_stop = times
    end = ended_at or max(now.replace(microsecond=0), settled_until)
    accrual = _Accrual(settled_until, end, prices.get((card, capacity), []), units * numerator, denominator)
    first = settled_until if window.start is None else max(settled_until, window.start)
    last = end if window.end is None else min(end, window.end)
    cuts = _cuts(group_by, first, last, ready_from, asked_to_stop)
    parts = tuple(
        (name, accrual.until(until) - accrual.until(since)) for name, since, until in cuts if since < until
    )
    return Running(
        workload_id=workload,
        team_id=team,
        user_id=owner,
        project=str(labels.get(PROJECT_LABEL, ""))[:63],
        flavor_name=flavor,
        capacity_type=capacity,
        parts=parts,
        priced=accrual.priced,
    )


def _cuts(
    group_by: str,
    first: datetime,
    last: datetime,
    ready_from: datetime | None,
    asked_to_stop: datetime | None,
) -> Iterator[tuple[str, datetime, datetime]]:
    if group_by in {"day", "month"}:
        day = first.date()
        day = day.replace(day=1) if group_by == "month" else day
        while midnight(day) < last:
            after = next_month(day) if group_by == "month" else day + timedelta(days=1)
            yield str(day), max(first, midnight(day)), min(last, midnight(after))
            day = after
        return
    if group_by != "phase":
        yield "", first, last
        return
    # As `costs.ledger.entries.phase_at` will say it when it is posted: who was asked to stop does so, started or not.
    stop = last if asked_to_stop is None else min(max(asked_to_stop.replace(microsecond=0), first), last)
    ready = stop if ready_from is None else min(max(ready_from.replace(microsecond=0), first), stop)
    yield "starting", first, ready
    yield "running", ready, stop
    yield "stopping", stop, last
