"""Counts what nobody held of the nodes' cards, hour by hour behind the present, and posts it.

Nothing is subtracted from a sum: each hour of each node is integrated from the node's history and the pods' intervals. A
change of either, however late, has left a mark, and its hours are counted again: what is different by then is reversed
and posted anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final, TypeVar
from uuid import uuid4

from django.db import transaction
from django.db.models import Exists, Min, OuterRef, Q, QuerySet, Sum

from costs.ledger.accounts import ADJUSTMENT, IDLE, STRANDED, SUPPLY, lane_account
from costs.ledger.idle_parts import HeldCards, IdlePart, OfferedCards, parts
from costs.models import IdleSpan, LedgerEntry, PricedCard, SupplyCursor, SupplyMark, UsageInterval
from costs.pricing import SECONDS_PER_HOUR, PriceSpan, Segment, priced_segments, whole
from costs.queries import spans_of
from foundation import leases
from workloads.models import NodeInterval

HOUR: Final = timedelta(hours=1)
SETTLED_AFTER: Final = timedelta(minutes=10)
"""What happened so long ago is mostly known."""
HOURS_MAX: Final = 48
"""In one turn; the next goes on."""
MARKS_MAX: Final = 500
WINDOW: Final = 6 * HOUR
WINDOWS_MAX: Final = 200
CELLS_MAX: Final = 200
"""Hours of nodes in one transaction, which holds the card's row: whoever closes a pod's interval waits for that."""
CORRECTED: Final = "It was counted again, as usage or the node's history turned out to be otherwise."
REASONS: Final = {
    IdleSpan.Kind.IDLE: "",
    IdleSpan.Kind.STRANDED: "",
    IdleSpan.Kind.UNCERTAIN: "Nobody watched the node in this time, so it is not known whether it was there.",
    IdleSpan.Kind.OVERHELD: "Pods held more than the node had: either its history or theirs is wrong.",
}
_PAYS: Final[dict[str, str]] = {IdleSpan.Kind.IDLE: IDLE, IdleSpan.Kind.STRANDED: STRANDED}
_Interval = TypeVar("_Interval", OfferedCards, HeldCards)
_Dated = TypeVar("_Dated", NodeInterval, UsageInterval)
Cell = tuple[datetime, str]
"""An hour of a node."""


def sweep(*, now: datetime) -> int:
    """Count what the turn before has claimed and what is marked; returns how many spans were written or taken back."""
    cursor = _cursor()
    if cursor is None:
        return 0
    written = _sweep_claimed(cursor, now)
    written += sum(_sweep_marked(priced, cursor, now) for priced in PricedCard.objects.all())
    _forget_unpriced()
    _claim(now)
    return written


def hour_of(moment: datetime) -> datetime:
    """The full hour, in UTC, that the moment lies in."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _cursor() -> SupplyCursor | None:
    found = SupplyCursor.objects.first()
    began_at = NodeInterval.objects.aggregate(first=Min("started_at"))["first"]
    if found is not None:
        if began_at is not None and began_at < found.began_at:
            _begin_earlier(found, began_at)
        return found
    if began_at is None:
        return None
    first = hour_of(began_at)
    with transaction.atomic():
        leases.check()
        values = {"began_at": began_at, "swept_until": first, "claimed_until": first}
        return SupplyCursor.objects.get_or_create(pk=SupplyCursor.SINGLETON_PK, defaults=values)[0]


def _begin_earlier(cursor: SupplyCursor, began_at: datetime) -> None:
    """Of a node that was there before all others it was heard later: what pods held in that time is counted with it."""
    with transaction.atomic():
        leases.check()
        SupplyMark.objects.bulk_create(
            SupplyMark(
                card=priced.card,
                capacity_type=priced.capacity_type,
                started_at=began_at,
                ended_at=cursor.began_at,
            )
            for priced in PricedCard.objects.all()
        )
        cursor.began_at = began_at
        cursor.save(update_fields=["began_at"])


def _claim(now: datetime) -> None:
    with transaction.atomic():
        leases.check()
        until = hour_of(now - SETTLED_AFTER)
        SupplyCursor.objects.filter(claimed_until__lt=until).update(claimed_until=until)


def _sweep_claimed(cursor: SupplyCursor, now: datetime) -> int:
    written, hours = 0, 0
    while cursor.swept_until < cursor.claimed_until and hours < HOURS_MAX:
        hour, hours = cursor.swept_until, hours + 1
        for priced in PricedCard.objects.all():
            names = _nodes_of(priced, hour, hour + HOUR)
            written += _sweep_cells(priced, [(hour, name) for name in names], cursor, now)
        with transaction.atomic():
            leases.check()
            cursor.swept_until = hour + HOUR
            cursor.save(update_fields=["swept_until"])
    return written


def _sweep_marked(priced: PricedCard, cursor: SupplyCursor, now: datetime) -> int:
    """Count again what is marked, from the earliest hour on; a mark that reaches further is shortened."""
    written = 0
    marks = SupplyMark.objects.filter(card=priced.card, capacity_type=priced.capacity_type)
    for _ in range(WINDOWS_MAX):
        some = list(marks.order_by("started_at", "id")[:MARKS_MAX])
        if not some:
            break
        start = max(hour_of(some[0].started_at), hour_of(cursor.began_at))
        end = start + WINDOW
        cells = sorted(set(_cells(priced, some, start, min(end, cursor.swept_until))))
        written += _sweep_cells(priced, cells, cursor, now)
        with transaction.atomic():
            leases.check()
            for mark in some:
                over = min(mark.ended_at or cursor.swept_until, cursor.swept_until)
                if over <= end:
                    mark.delete()
                elif mark.started_at < end:
                    mark.started_at = end
                    mark.save(update_fields=["started_at"])
    return written


def _forget_unpriced() -> None:
    """Marks of cards that never had a price: there is nothing to count again, and a first price marks all of its time."""
    priced = PricedCard.objects.filter(card=OuterRef("card"), capacity_type=OuterRef("capacity_type"))
    with transaction.atomic():
        leases.check()
        SupplyMark.objects.filter(~Exists(priced)).delete()


def _cells(priced: PricedCard, marks: Sequence[SupplyMark], start: datetime, end: datetime) -> Iterator[Cell]:
    everywhere: list[str] | None = None
    for mark in marks:
        hour, last = max(start, hour_of(mark.started_at)), min(end, mark.ended_at or end)
        while hour < last:
            if not mark.node_name and everywhere is None:
                everywhere = _nodes_of(priced, start, end)
            for name in [mark.node_name] if mark.node_name else everywhere or []:
                yield hour, name
            hour += HOUR


def _nodes_of(priced: PricedCard, start: datetime, end: datetime) -> list[str]:
    """Names of the nodes that had such cards, or on which pods held some."""
    had = _within(NodeInterval.objects.all(), priced, start, end)
    held = _within(UsageInterval.objects.all(), priced, start, end)
    return sorted({*had.values_list("node_name", flat=True), *held.values_list("node_name", flat=True)})


def _within(rows: QuerySet[_Dated], priced: PricedCard, start: datetime, end: datetime) -> QuerySet[_Dated]:
    """Those of the card of which a part lies in `[start, end)`."""
    rows = rows.order_by().filter(card=priced.card, capacity_type=priced.capacity_type, started_at__lt=end)
    return rows.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=start))


def _sweep_cells(priced: PricedCard, cells: Sequence[Cell], cursor: SupplyCursor, now: datetime) -> int:
    written = 0
    for first in range(0, len(cells), CELLS_MAX):
        with transaction.atomic():
            leases.check()
            written += _count(priced.pk, cells[first : first + CELLS_MAX], cursor, now)
    return written


@dataclass(frozen=True)
class _Counted:
    """A part of a node's hour, as a row says it or should."""

    node_name: str
    part: IdlePart


def _count(lane: int, cells: Sequence[Cell], cursor: SupplyCursor, now: datetime) -> int:
    # The card before its intervals, as everywhere; from here on its prices and what is left over stay.
    priced = PricedCard.objects.select_for_update().get(pk=lane)
    spans = spans_of(priced)
    wanted = set(_counted(priced, spans, cells, cursor.began_at))
    prices = {span.price_id: span for span in spans}
    standing = {_as_counted(span, prices): span for span in _standing(priced, cells)}
    wrong = [span for counted, span in standing.items() if counted not in wanted]
    new = sorted(
        wanted - standing.keys(), key=lambda each: (each.part.segment.start, each.node_name, each.part.kind)
    )
    if not wrong and not new:
        return 0
    entries = [*_take_back(priced, wrong, prices, now), *_post(priced, new, now)]
    LedgerEntry.objects.bulk_create(entries)
    priced.save(update_fields=["carry_numerator", "carry_denominator"])
    return len(wrong) + len(new)


def _as_counted(span: IdleSpan, prices: Mapping[int, PriceSpan]) -> _Counted:
    segment = Segment(span.started_at, span.ended_at, prices[span.price_id])
    return _Counted(span.node_name, IdlePart(segment, span.node_uid, span.kind, span.card_seconds))


def _standing(priced: PricedCard, cells: Sequence[Cell]) -> list[IdleSpan]:
    hours, names = {hour for hour, _ in cells}, {name for _, name in cells}
    rows = IdleSpan.objects.filter(
        priced=priced, node_name__in=names, started_at__gte=min(hours), started_at__lt=max(hours) + HOUR
    )
    asked = set(cells)
    return [row for row in rows if (hour_of(row.started_at), row.node_name) in asked]


def _counted(
    priced: PricedCard, spans: Sequence[PriceSpan], cells: Sequence[Cell], began_at: datetime
) -> Iterator[_Counted]:
    names = sorted({name for _, name in cells})
    start, end = min(hour for hour, _ in cells), max(hour for hour, _ in cells) + HOUR
    nodes: dict[str, list[OfferedCards]] = {name: [] for name in names}
    pods: dict[str, list[HeldCards]] = {name: [] for name in names}
    for row in _within(NodeInterval.objects.filter(node_name__in=names), priced, start, end):
        offered = OfferedCards(
            row.node_uid, Fraction(row.cards), row.offered, row.certain, row.started_at, row.ended_at
        )
        nodes[row.node_name].append(offered)
    for usage in _within(UsageInterval.objects.filter(node_name__in=names), priced, start, end):
        pods[usage.node_name].append(HeldCards(usage.cards, usage.started_at, usage.ended_at))
    for hour, name in cells:
        first, last = max(hour, began_at), hour + HOUR
        for segment in priced_segments(first, last, spans):
            for part in parts(segment, _in(segment, nodes[name]), _in(segment, pods[name])):
                yield _Counted(name, part)


def _in(segment: Segment, rows: Sequence[_Interval]) -> list[_Interval]:
    return [row for row in rows if row.start < segment.end and (row.end is None or row.end > segment.start)]


def _take_back(
    priced: PricedCard, wrong: Sequence[IdleSpan], prices: Mapping[int, PriceSpan], now: datetime
) -> Iterator[LedgerEntry]:
    """Reversing lines of these spans, which go."""
    old = LedgerEntry.objects.filter(transaction_id__in=[span.transaction_id for span in wrong])
    lines = {(row.transaction_id, row.account): row for row in old}
    for span in wrong:
        counted = _as_counted(span, prices)
        for entry in _both_sides(priced, counted, -1, now):
            entry.reverses = lines[span.transaction_id, entry.account]
            entry.reason = CORRECTED
            yield entry
    IdleSpan.objects.filter(pk__in=[span.pk for span in wrong]).delete()


def _post(priced: PricedCard, new: Sequence[_Counted], now: datetime) -> Iterator[LedgerEntry]:
    rows = []
    for counted in new:
        part = counted.part
        sides = _both_sides(priced, counted, 1, now)
        yield from sides
        rows.append(
            IdleSpan(
                priced=priced,
                node_name=counted.node_name,
                node_uid=part.node_uid,
                kind=part.kind,
                started_at=part.segment.start,
                ended_at=part.segment.end,
                seconds_numerator=part.card_seconds.numerator,
                seconds_denominator=part.card_seconds.denominator,
                price_id=part.segment.span.price_id,
                transaction_id=sides[0].transaction_id,
            )
        )
    IdleSpan.objects.bulk_create(rows)


def _both_sides(priced: PricedCard, counted: _Counted, sign: int, now: datetime) -> list[LedgerEntry]:
    """Who pays for it, and supply; what was held beyond the node's cards is taken from both."""
    part = counted.part
    if part.kind == IdleSpan.Kind.OVERHELD:
        sign = -sign
    span = part.segment.span
    amount, priced.carry = whole(
        sign * part.card_seconds * span.micro_usd_per_card_hour / SECONDS_PER_HOUR + priced.carry
    )
    account = ADJUSTMENT
    if part.kind in _PAYS:
        account = lane_account(_PAYS[part.kind], priced.card, priced.capacity_type)
    transaction_id = uuid4()
    return [
        LedgerEntry(
            transaction_id=transaction_id,
            account=name,
            node_name=counted.node_name,
            started_at=part.segment.start,
            ended_at=part.segment.end,
            price_id=span.price_id,
            units=0,
            amount_micro_usd=value,
            reason=REASONS[IdleSpan.Kind(part.kind)],
            posted_at=now,
        )
        for name, value in (
            (account, amount),
            (lane_account(SUPPLY, priced.card, priced.capacity_type), -amount),
        )
    ]


def overheld_card_seconds() -> Fraction:
    """What pods held beyond what their nodes had, as far as it is counted; more than 0 says that a history is wrong."""
    rows = IdleSpan.objects.filter(kind=IdleSpan.Kind.OVERHELD).order_by()
    sums = rows.values_list("seconds_denominator").annotate(total=Sum("seconds_numerator"))
    return sum((Fraction(int(total), denominator) for denominator, total in sums), Fraction(0))
