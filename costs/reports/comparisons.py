"""What spot saved, what stood idle, what was lost: sums of the ledger that are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction

from costs.ledger.accounts import IDLE, LOST, STRANDED
from costs.models import Facet, Price
from costs.queries import PriceBook, spans_by_card
from costs.reports import sql
from costs.reports.sql import Scope, Statement
from costs.reports.windows import CostWindow, Pieces, pieces_of, whole_days
from workloads.models import CapacityType


@dataclass(frozen=True, kw_only=True)
class SpotSavings:
    """Micro-USD that spot capacity cost, and what it would have cost on demand at the prices of that time."""

    spent: int
    on_demand: int
    complete: bool
    """False where a card had no on-demand price at the time: that part is in neither sum."""

    @property
    def saved(self) -> int:
        return self.on_demand - self.spent


@dataclass(frozen=True, kw_only=True)
class LaneUse:
    """What a card's capacity was worth in the window, in micro-USD, as far as it is posted."""

    card: str
    capacity: str
    charged: int
    idle: int
    stranded: int
    lost: int

    @property
    def total(self) -> int:
        return self.charged + self.idle + self.stranded + self.lost

    @property
    def idle_share(self) -> Fraction | None:
        """Part of all that nobody used although it could be asked for; None of nothing."""
        return Fraction(self.idle, self.total) if self.total else None


@dataclass(frozen=True, kw_only=True)
class DayUse:
    """Of one day what nobody used and what was lost, in micro-USD, as far as it is posted."""

    day: date
    idle: int
    stranded: int
    lost: int


def spot_savings(
    *, teams: Collection[int] | None, window: CostWindow, prices: PriceBook | None = None
) -> SpotSavings:
    """What was posted for spot capacity in the window against the on-demand price of the same card at the time."""
    book = spans_by_card() if prices is None else prices
    rows = Price.objects.filter(priced__capacity_type=CapacityType.SPOT)
    spot = {
        key: (card, micro)
        for key, card, micro in rows.values_list("pk", "priced__card", "micro_usd_per_card_hour")
    }
    if not spot:
        return SpotSavings(spent=0, on_demand=0, complete=True)
    scope = Scope(teams=teams, prices=list(spot))
    spent, compared, complete = 0, Fraction(0), True
    with sql.one_moment():
        for part in _cut(window, book, {card for card, _ in spot.values()}):
            for key, sums in sql.sums(sql.rollups(Facet.LANE, pieces_of(part)), scope, "price").items():
                card, micro = spot[key]
                on_demand = _price_in(book, card, part)
                if on_demand is None or micro == 0:
                    complete = complete and sums.posted == 0
                    continue
                spent += sums.posted
                compared += Fraction(sums.posted * on_demand, micro)
    return SpotSavings(spent=spent, on_demand=compared.numerator // compared.denominator, complete=complete)


def _cut(window: CostWindow, book: PriceBook, cards: set[str]) -> Iterator[CostWindow]:
    """The window, cut where an on-demand price of one of the cards begins or ends."""
    moments: set[datetime] = set()
    for card in cards:
        for span in book.get((card, CapacityType.ON_DEMAND), []):
            moments |= {each for each in (span.start, span.until) if each is not None and window.holds(each)}
    start = window.start
    for moment in sorted(moments):
        if start is None or start < moment:
            yield CostWindow(start, moment)
            start = moment
    yield CostWindow(start, window.end)


def _price_in(book: PriceBook, card: str, part: CostWindow) -> int | None:
    """The on-demand price of the part, throughout which it is one."""
    for span in book.get((card, CapacityType.ON_DEMAND), []):
        begun = part.start is not None and span.start <= part.start
        if begun and (span.until is None or (part.end is not None and part.end <= span.until)):
            return span.micro_usd_per_card_hour
    return None


def use_of_capacity(window: CostWindow) -> list[LaneUse]:
    """Of each card and capacity type, what teams were charged and what stood idle, was stranded or lost."""
    lanes: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    pieces, everything = pieces_of(window), Scope()
    of_price = {
        key: (card, capacity)
        for key, card, capacity in Price.objects.values_list("pk", "priced__card", "priced__capacity_type")
    }
    with sql.one_moment():
        for price, sums in sql.sums(sql.rollups(Facet.LANE, pieces), everything, "price").items():
            if price in of_price:
                lanes[of_price[price]]["charged"] += sums.posted
        for account, sums in sql.sums(_unused(pieces), everything, "account").items():
            kind, _, lane = account.partition(":")
            card, _, capacity = lane.rpartition(":")
            lanes[card, capacity][kind] += sums.posted
    return [
        LaneUse(
            card=card,
            capacity=capacity,
            charged=found["charged"],
            idle=found["idle"],
            stranded=found["stranded"],
            lost=found["lost"],
        )
        for (card, capacity), found in sorted(lanes.items())
    ]


def unused_by_day(window: CostWindow) -> list[DayUse]:
    """What stood idle, was stranded or lost in all cards, for each day of a window of whole days that has any."""
    days: dict[date, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, sums in sql.sums(_unused(whole_days(window)), Scope(), "kind and day").items():
        kind, _, day = key.partition(" ")
        days[date.fromisoformat(day)][kind] += sums.posted
    return [
        DayUse(day=day, idle=found["idle"], stranded=found["stranded"], lost=found["lost"])
        for day, found in sorted(days.items())
    ]


def _unused(pieces: Pieces) -> Statement:
    """Sums of the accounts of what stood idle, was stranded or lost."""
    kinds = [prefix.removesuffix(":") for prefix in (IDLE, STRANDED, LOST)]
    return sql.together(sql.rollups(Facet.LANE, pieces, account_kind=kind) for kind in kinds)


def lost_by_platform(*, teams: Collection[int] | None, window: CostWindow) -> int:
    """Micro-USD posted in the window that teams were credited with for work that the platform destroyed."""
    kept = sql.rollups(Facet.LANE, pieces_of(window), account_kind=LOST.removesuffix(":"))
    return sum(sums.posted for sums in sql.sums(kept, Scope(teams=teams), "").values())


def spent_on_failed(*, teams: Collection[int] | None, window: CostWindow) -> int:
    """Micro-USD posted in the window for runs that have failed since."""
    pieces = pieces_of(window)
    by_month = not pieces.days and not pieces.edges
    statement = sql.workload_months(pieces) if by_month else sql.workload_days(whole_days(window))
    return sql.sum_of_failed(statement, Scope(teams=teams))
