"""From when to when, and what of it is whole months, whole days and the rest. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

DAY = timedelta(days=1)


@dataclass(frozen=True)
class CostWindow:
    """`[start, end)`, in UTC; None is without a bound on that side."""

    start: datetime | None = None
    end: datetime | None = None

    @classmethod
    def month(cls, year: int, month: int) -> CostWindow:
        """A month of the calendar in UTC."""
        first = date(year, month, 1)
        return cls(midnight(first), midnight(next_month(first)))

    @classmethod
    def month_of(cls, moment: datetime) -> CostWindow:
        """The month in which the moment lies."""
        day = moment.astimezone(UTC).date()
        return cls.month(day.year, day.month)

    @property
    def is_empty(self) -> bool:
        return self.start is not None and self.end is not None and self.start >= self.end

    def holds(self, moment: datetime) -> bool:
        return (self.start is None or self.start <= moment) and (self.end is None or moment < self.end)


ALWAYS = CostWindow()


@dataclass(frozen=True)
class Dates:
    """`[start, end)` of dates; None is without a bound on that side."""

    start: date | None
    end: date | None


@dataclass(frozen=True)
class Pieces:
    """What a window consists of: together they are the window, and none overlaps another."""

    always: bool
    """All there is: then the others are empty."""
    months: tuple[Dates, ...]
    days: tuple[Dates, ...]
    edges: tuple[CostWindow, ...]
    """Parts of a day."""


def pieces_of(window: CostWindow) -> Pieces:
    """Whole months, whole days outside of these, and the rest."""
    start, end = window.start, window.end
    if start is None and end is None:
        return Pieces(True, (), (), ())
    if window.is_empty:
        return Pieces(False, (), (), ())
    edges: list[CostWindow] = []
    first = None if start is None else _day_from(start)
    last = None if end is None else end.astimezone(UTC).date()
    if first is not None and last is not None and first > last:
        return Pieces(False, (), (), (window,))
    if start is not None and first is not None and midnight(first) != start:
        edges.append(CostWindow(start, midnight(first)))
    if end is not None and last is not None and midnight(last) != end:
        edges.append(CostWindow(midnight(last), end))
    months, days = _months_and_days(first, last)
    return Pieces(False, months, days, tuple(edges))


def whole_days(window: CostWindow) -> Pieces:
    """The same without months."""
    found = pieces_of(window)
    if found.always:
        return Pieces(False, (), (Dates(None, None),), ())
    if not found.months and not found.days:
        return found
    starts = [each.start for each in (*found.months, *found.days)]
    ends = [each.end for each in (*found.months, *found.days)]
    first = None if None in starts else min(each for each in starts if each is not None)
    last = None if None in ends else max(each for each in ends if each is not None)
    return Pieces(False, (), (Dates(first, last),), found.edges)


def days_of(window: CostWindow) -> Iterator[date]:
    """The days that a bounded window touches."""
    if window.start is None or window.end is None or window.is_empty:
        return
    day = window.start.astimezone(UTC).date()
    while midnight(day) < window.end:
        yield day
        day += DAY


def next_month(day: date) -> date:
    """The first day of the month after."""
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def midnight(day: date) -> datetime:
    """When the day begins, in UTC."""
    return datetime.combine(day, time(), tzinfo=UTC)


def _months_and_days(first: date | None, last: date | None) -> tuple[tuple[Dates, ...], tuple[Dates, ...]]:
    month_first = first if first is None or first.day == 1 else next_month(first)
    month_last = last.replace(day=1) if last else None
    if month_first is not None and month_last is not None and month_first >= month_last:
        return (), (Dates(first, last),) if first != last else ()
    days = []
    if first is not None and first != month_first:
        days.append(Dates(first, month_first))
    if last is not None and last != month_last:
        days.append(Dates(month_last, last))
    return (Dates(month_first, month_last),), tuple(days)


def _day_from(moment: datetime) -> date:
    """The first day that begins at the moment or after it."""
    day = moment.astimezone(UTC).date()
    return day if midnight(day) == moment else day + DAY
