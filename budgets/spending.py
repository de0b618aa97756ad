"""What a team has spent, and what its work still needs. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import OuterRef, Subquery, Sum

from budgets.periods import Span
from costs.models import BudgetPeriod, ChargeLimit, CostRollup, Facet, Grain, UsageInterval
from costs.pricing import accrued, priced_segments
from costs.queries import PriceBook, costs_of, spans_by_card
from foundation.models import PlatformSettings
from policy.budgets import STOP_MARGIN_SECONDS, Need, need
from policy.pool_snapshot import PriceFacts
from teams.models import Team
from workloads.models import Attempt, Workload
from workloads.states import HOLDS_CLAIM, Phase

TEAM_KIND = "team"
"""The kind of account that a team pays from, as the kept sums tell it."""


def spent_in_period(
    team: Team, period: Span | BudgetPeriod, *, now: datetime, price_book: PriceBook | None = None
) -> int:
    """Micro-USD that the team was charged in the period, less what was given back to it, with what has come up by `now`
    and is not in the ledger yet.
    """
    posted = CostRollup.objects.filter(
        facet=Facet.LANE,
        grain=Grain.DAY,
        account_kind=TEAM_KIND,
        team_id=team.pk,
        period__gte=period.starts_at.astimezone(UTC).date(),
        period__lt=period.ends_at.astimezone(UTC).date(),
    ).aggregate(sum=Sum("amount_micro_usd"))["sum"]
    book = spans_by_card() if price_book is None else price_book
    unsettled = UsageInterval.objects.filter(UsageInterval.unsettled(), team=team)
    until = min(now, period.ends_at).replace(microsecond=0)
    return int(posted or 0) + sum(_accrued(usage, book, period.starts_at, until) for usage in unsettled)


def accrued_of(limit: ChargeLimit, *, now: datetime, price_book: PriceBook) -> int:
    """Micro-USD of what the limit is about that has come up by `now` and is not in the ledger yet."""
    unsettled = UsageInterval.objects.filter(UsageInterval.unsettled(), workload=limit.workload_id)
    until = min(now, limit.counts_until).replace(microsecond=0)
    return sum(_accrued(usage, price_book, limit.counts_from, until) for usage in unsettled)


def _accrued(usage: UsageInterval, book: PriceBook, since: datetime | None, until: datetime) -> int:
    start = usage.settled_until if since is None else max(usage.settled_until, since)
    end = min(usage.ended_at or until, until)
    if end <= start:
        return 0
    spans = book.get((usage.card, usage.capacity_type), [])
    return accrued(list(priced_segments(start, end, spans)), usage.cards)


def costs_so_far(workloads: Sequence[Workload], *, now: datetime, price_book: PriceBook) -> dict[int, int]:
    """Micro-USD that each has cost, by its key; time without a price counts nothing."""
    known = costs_of(workloads, now=now, price_book=price_book)
    return {key: cost.so_far or 0 for key, cost in known.items()}


def price_facts(book: PriceBook, card: str, capacity_type: str) -> tuple[PriceFacts, ...]:
    """The card's prices as the policy takes them, first to last."""
    return tuple(
        PriceFacts(
            int(span.start.timestamp()),
            None if span.until is None else int(span.until.timestamp()),
            span.micro_usd_per_card_hour,
        )
        for span in book.get((card, capacity_type), ())
    )


@dataclass(frozen=True)
class Costing:
    """What is needed to say what work costs from now on."""

    book: PriceBook
    grace: int
    minimum: int

    @property
    def tail(self) -> int:
        """Seconds from the decision to stop to the end of the last pod, at least."""
        return self.grace + STOP_MARGIN_SECONDS

    def prices(self, workload: Workload) -> tuple[PriceFacts, ...]:
        """Of the workload's card; empty without one."""
        flavor = workload.flavor
        return price_facts(self.book, flavor.card, workload.capacity_type) if flavor else ()

    def need(self, workload: Workload, seconds: int | None, *, now: datetime, ends_at: datetime) -> Need:
        """What it needs to run for so many seconds from now on, at its most; None for one without end."""
        if workload.flavor is None:
            return Need(0, 0)
        return need(
            self.prices(workload),
            workload.units * workload.flavor.gpu_fraction,
            seconds=seconds,
            start=int(now.timestamp()),
            ends_at=int(ends_at.timestamp()),
            minimum=self.minimum,
            tail=self.tail,
        )


def costing() -> Costing:
    """By the prices and settings of now."""
    settings = PlatformSettings.current()
    return Costing(spans_by_card(), settings.grace_seconds, settings.minimum_run_seconds)


def seconds_left(workload: Workload, started_at: datetime | None, now: datetime) -> int | None:
    """What is left of its time limit; 0 while it is being stopped, None for one without end."""
    if workload.phase == Phase.STOPPING.value:
        return 0
    if not workload.own_kind.ends or workload.time_limit_seconds is None:
        return None
    age = 0 if started_at is None else max(0, int((now - started_at).total_seconds()))
    return max(0, workload.time_limit_seconds - workload.used_seconds - age)


def holding_of(team: Team) -> list[tuple[Workload, datetime | None]]:
    """The team's workloads that hold GPUs, in the order in which they are promised money, with when their attempts began:
    those without end first, then in the order of their admission.
    """
    began = Attempt.objects.filter(workload=OuterRef("pk"), ended_at__isnull=True).values("started_at")[:1]
    rows = Workload.objects.filter(team=team, phase__in=[phase.value for phase in HOLDS_CLAIM], units__gt=0)
    rows = rows.select_related("flavor", "team").annotate(began=Subquery(began))
    held: Iterable[Workload] = sorted(rows, key=_by_promise)
    return [(row, row.began) for row in held]  # type: ignore[attr-defined] # annotated above


def _by_promise(workload: Workload) -> tuple[bool, datetime, int]:
    return workload.own_kind.ends, workload.admitted_at or workload.queued_at, workload.pk
