"""Which month or week a report of costs is about, and when it is due. Pure.

Months and weeks are of days in UTC, as those of the page of costs; when one is over is told by the time zone of who reads of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

SETTLED_AFTER: Final = timedelta(hours=1)
"""After the end of a period its last hour is in the ledger, with what nobody held of it."""
TOLD_WITHIN: Final = timedelta(days=7)
"""How late a report may be that nobody could make in time; a later one is not made any more. Less than notices are kept."""


class Rhythm(StrEnum):
    """How often somebody is told."""

    MONTH = "month"
    WEEK = "week"


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """The days from `first` to before `after`."""

    rhythm: Rhythm
    first: date
    after: date

    @property
    def key(self) -> str:
        """`2026-11`, or `2026-W48`."""
        if self.rhythm is Rhythm.MONTH:
            return f"{self.first:%Y-%m}"
        year, week, _ = self.first.isocalendar()
        return f"{year}-W{week:02}"

    @property
    def title(self) -> str:
        """`November 2026`, or `the week from 23 Nov 2026 to 29 Nov 2026`."""
        if self.rhythm is Rhythm.MONTH:
            return f"{self.first:%B %Y}"
        begin, end = (f"{day.day} {day:%b %Y}" for day in (self.first, self.after - timedelta(days=1)))
        return f"the week from {begin} to {end}"

    @property
    def starts_at(self) -> datetime:
        return datetime.combine(self.first, time(), tzinfo=UTC)

    @property
    def ends_at(self) -> datetime:
        return datetime.combine(self.after, time(), tzinfo=UTC)

    @property
    def before(self) -> ReportPeriod:
        """The one that ends where it begins."""
        return _ending(self.rhythm, self.first)

    def due_at(self, time_zone: str) -> datetime:
        """When the day after it begins in the time zone, and the ledger has its last hour."""
        local = datetime.combine(self.after, time(), tzinfo=ZoneInfo(time_zone)).astimezone(UTC)
        return max(local, self.ends_at + SETTLED_AFTER)


def due_period(rhythm: Rhythm, *, now: datetime, time_zone: str) -> ReportPeriod | None:
    """The period that is to be told of now, if it is not told yet; None where the last one is too long ago, or not due."""
    today = now.astimezone(ZoneInfo(time_zone)).date()
    begun = today.replace(day=1) if rhythm is Rhythm.MONTH else today - timedelta(days=today.weekday())
    period = _ending(rhythm, begun)
    due = period.due_at(time_zone)
    return period if due <= now < due + TOLD_WITHIN else None


def period_of(key: str) -> ReportPeriod:
    """The one of that `key`."""
    if "W" in key:
        year, _, week = key.partition("-W")
        return _ending(Rhythm.WEEK, date.fromisocalendar(int(year), int(week), 1) + timedelta(days=7))
    first = date.fromisoformat(f"{key}-01")
    return ReportPeriod(Rhythm.MONTH, first, (first + timedelta(days=31)).replace(day=1))


def _ending(rhythm: Rhythm, after: date) -> ReportPeriod:
    first = (
        (after - timedelta(days=1)).replace(day=1) if rhythm is Rhythm.MONTH else after - timedelta(days=7)
    )
    return ReportPeriod(rhythm, first, after)
