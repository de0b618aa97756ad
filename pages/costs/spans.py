"""Which days a page of costs shows, as its address says: `?month=2026-11`, or `?from=2026-11-03&to=2026-11-09`.

Days are those of UTC, and both are shown. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final
from urllib.parse import urlencode

from costs.reports.windows import DAY, CostWindow, midnight, next_month
from foundation.http.query import refuse

DAYS_MAX: Final = 366
FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 2999
_MONTH: Final = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CostSpan:
    """The days from `first` to `last`. `month` is `2026-11` where that is what was asked for, else empty."""

    first: date
    last: date
    month: str
    today: date

    @property
    def window(self) -> CostWindow:
        return CostWindow(midnight(self.first), midnight(self.last + DAY))

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def until_today(self) -> list[date]:
        """Its days, but for those that are yet to come."""
        last = min(self.last, self.today)
        return [self.first + DAY * index for index in range((last - self.first).days + 1)]

    @property
    def title(self) -> str:
        """`November 2026`, `3 Nov 2026` or `3 Nov 2026 to 9 Nov 2026`."""
        if self.month:
            return f"{self.first:%B %Y}"
        begin, end = (f"{day.day} {day:%b %Y}" for day in (self.first, self.last))
        return begin if self.first == self.last else f"{begin} to {end}"

    @property
    def is_now(self) -> bool:
        return self.first <= self.today <= self.last

    @property
    def is_this_month(self) -> bool:
        return bool(self.month) and self.is_now

    @property
    def previous(self) -> str:
        """The query of the month before the one that was asked for; empty where it is not offered."""
        if not self.month or self.first <= date(FIRST_YEAR, 1, 1):
            return ""
        return f"{self.first - DAY:%Y-%m}"

    @property
    def following(self) -> str:
        """The month after; empty where that is yet to come."""
        after = self.last + DAY
        return f"{after:%Y-%m}" if self.month and after <= self.today else ""

    @property
    def export(self) -> str:
        """The part of an address of REST that asks for the same days."""
        window = self.window
        return urlencode({"from": _text(window.start), "to": _text(window.end)})


def read_span(asked: Mapping[str, str], *, now: datetime) -> CostSpan:
    """The days that are asked for, this month's where none are. Raises Malformed, naming the argument."""
    today = now.astimezone(UTC).date()
    begin, end, month = (asked.get(name, "").strip() for name in ("from", "to", "month"))
    if begin or end:
        if month:
            raise refuse("month", "cannot be asked for together with from and to.")
        return _range(begin, end, today)
    return _month(month or f"{today:%Y-%m}", today)


def _range(begin: str, end: str, today: date) -> CostSpan:
    last = _day("to", end) if end else today
    first = _day("from", begin) if begin else last.replace(day=1)
    if last < first:
        raise refuse("to", "must not be before from.", code="ends_before_it_begins")
    if (last - first).days >= DAYS_MAX:
        raise refuse("from", f"at most {DAYS_MAX} days are shown; a CSV file by REST has any number.")
    whole = first.day == 1 and last == next_month(first) - DAY
    return CostSpan(first, last, f"{first:%Y-%m}" if whole else "", today)


def _month(text: str, today: date) -> CostSpan:
    found = _MONTH.fullmatch(text)
    year, month = (int(part) for part in found.groups()) if found else (0, 0)
    if not (FIRST_YEAR <= year <= LAST_YEAR and 1 <= month <= 12):
        raise refuse("month", "must be a month such as 2026-11.")
    first = date(year, month, 1)
    return CostSpan(first, next_month(first) - DAY, f"{first:%Y-%m}", today)


def _day(name: str, text: str) -> date:
    try:
        day = date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None or not FIRST_YEAR <= day.year <= LAST_YEAR:
        raise refuse(name, "must be a day such as 2026-11-24.")
    return day


def _text(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment else ""
