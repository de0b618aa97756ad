"""Exact arithmetic of money: pure functions on integers and fractions, never on floats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from fractions import Fraction

from foundation.money import half_up

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class PriceSpan:
    """A price and the half-open interval in which it holds; `until` None means open."""

    price_id: int
    micro_usd_per_card_hour: int
    start: datetime
    until: datetime | None


@dataclass(frozen=True)
class Segment:
    """A part of a usage interval with one price."""

    start: datetime
    end: datetime
    span: PriceSpan


@dataclass(frozen=True)
class PricedSegment:
    segment: Segment
    amount_micro_usd: int


def priced_segments(start: datetime, end: datetime, spans: Sequence[PriceSpan]) -> Iterator[Segment]:
    """The parts of `[start, end)` that have a price, cut at price changes; what came before the first price has none."""
    for span in sorted(spans, key=lambda item: item.start):
        first = max(start, span.start)
        last = end if span.until is None else min(end, span.until)
        if first < last:
            yield Segment(first, last, span)


def has_price_at_end(segments: Sequence[Segment], start: datetime, end: datetime) -> bool:
    """Whether the price of all that may still have one of `[start, end)` is known, by its priced segments: what came
    before the first price costs nothing, what has no price yet nobody knows.
    """
    return start >= end or (bool(segments) and segments[-1].end == end)


def cut(segments: Iterable[Segment], moments: Iterable[datetime]) -> Iterator[Segment]:
    """The segments, cut at those of the moments that lie inside of one."""
    ordered = sorted(set(moments))
    for segment in segments:
        start = segment.start
        for moment in ordered:
            if start < moment < segment.end:
                yield replace(segment, start=start, end=moment)
                start = moment
        yield replace(segment, start=start)


def by_day(segments: Iterable[Segment]) -> Iterator[Segment]:
    """The segments, cut at midnight UTC: then a line belongs to one day, and days add up to months."""
    for segment in segments:
        start = segment.start
        while (midnight := _next_midnight(start)) < segment.end:
            yield replace(segment, start=start, end=midnight)
            start = midnight
        yield replace(segment, start=start)


def _next_midnight(moment: datetime) -> datetime:
    day = moment.astimezone(UTC).date() + timedelta(days=1)
    return datetime.combine(day, time(), tzinfo=UTC)


def exact_cost(segment: Segment, cards: Fraction) -> Fraction:
    """Micro-USD, unrounded. Times of the Kubernetes API are whole seconds."""
    seconds = Fraction(int((segment.end - segment.start).total_seconds()))
    return cards * seconds * segment.span.micro_usd_per_card_hour / SECONDS_PER_HOUR


def lines(
    segments: Sequence[Segment], cards: Fraction, carry: Fraction
) -> tuple[list[PricedSegment], Fraction]:
    """Whole amounts for the segments and the new carry: each line rounds down once, with what was left over
    before taken in, so that the lines of a card always add up to its exact cost to within one micro-USD.
    """
    result = []
    for segment in segments:
        amount, carry = whole(exact_cost(segment, cards) + carry)
        result.append(PricedSegment(segment, amount))
    return result, carry


def whole(exact: Fraction) -> tuple[int, Fraction]:
    """Micro-USD rounded down, and what is left over."""
    amount = exact.numerator // exact.denominator
    return amount, exact - amount


def accrued(segments: Sequence[Segment], cards: Fraction) -> int:
    """Micro-USD of segments that are not in the ledger yet, rounded down."""
    return whole(sum((exact_cost(segment, cards) for segment in segments), Fraction(0)))[0]


def quote(cards: Fraction, start: datetime, seconds: int, spans: Sequence[PriceSpan]) -> int | None:
    """Whole micro-USD of so many cards for so many seconds from `start` on, by the prices that are known for that time.

    None where a part of it has no price. It is what the lines of such use add up to, in however many lines, if nothing
    was carried when the first of them was posted and none of the card came between: a line is what it exactly costs with
    what was carried, rounded down, so they add up to the exact cost less what is carried in the end, which is less
    than 1. With a carry it is less by 1 at most, and with other lines between them each line is off by less than 1.
    """
    start = start.replace(microsecond=0)
    end = start + timedelta(seconds=seconds)
    segments = list(priced_segments(start, end, spans))
    if sum((each.end - each.start for each in segments), timedelta(0)) != max(end - start, timedelta(0)):
        return None
    return accrued(segments, cards)


def rate_per_hour(cards: Fraction, micro_usd_per_card_hour: int) -> int:
    """Micro-USD per hour of so many cards, rounded half up."""
    return half_up(cards * micro_usd_per_card_hour)
