"""Cron schedules of five fields, as KEDA's cron trigger reads them: when a time is next due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""The bounds of minute, hour, day of month, month and day of week."""
_YEARS = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """The allowed values of each field, and whether the two kinds of days were given at all."""

    allowed: tuple[frozenset[int], ...]
    any_day: bool
    any_weekday: bool

    def next(self, after: datetime) -> datetime | None:
        """The first matching minute after that time in its own time zone; None within five years."""
        moment = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
        limit = moment + timedelta(days=366 * _YEARS)
        minutes, hours, _, months, _ = self.allowed
        while moment < limit:
            if moment.month not in months or not self._day(moment):
                moment = (moment + timedelta(days=1)).replace(hour=0, minute=0)
            elif moment.hour not in hours:
                moment = (moment + timedelta(hours=1)).replace(minute=0)
            elif moment.minute not in minutes:
                moment += timedelta(minutes=1)
            else:
                return moment
        return None

    def _day(self, moment: datetime) -> bool:
        """Either kind of day is enough where both are given."""
        day = moment.day in self.allowed[2]
        weekday = moment.isoweekday() % 7 in self.allowed[4]
        return day and weekday if self.any_day or self.any_weekday else day or weekday


def parse(text: str) -> Schedule:
    """ValueError with the parser's words."""
    parts = text.split()
    if len(parts) != len(_BOUNDS):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: {parts}".replace("'", ""))
    allowed = tuple(_field(part, *bounds) for part, bounds in zip(parts, _BOUNDS, strict=True))
    return Schedule(allowed, parts[2][0] in "*?", parts[4][0] in "*?")


def _field(text: str, least: int, most: int) -> frozenset[int]:
    return frozenset(number for part in text.split(",") for number in _range(part, least, most))


def _range(text: str, least: int, most: int) -> range:
    span, slash, step_text = text.partition("/")
    step = _number(step_text, most) if slash else 1
    first_text, dash, last_text = span.partition("-")
    if span in {"*", "?"}:
        first, last = least, most
    else:
        first = _number(first_text, most)
        last = _number(last_text, most) if dash else most if slash else first
    if first < least:
        raise ValueError(f"beginning of range ({first}) below minimum ({least}): {text}")
    if last > most:
        raise ValueError(f"end of range ({last}) above maximum ({most}): {text}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if not step:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(first, last + 1, step)


def _number(text: str, most: int) -> int:
    # Months are counted from one.
    names = ("", *_MONTHS) if most == 12 else _DAYS if most == 6 else ()
    if text and text.lower() in names:
        return names.index(text.lower())
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
