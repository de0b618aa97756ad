"""Which time a page of figures shows, as its address says: `?range=6h`, or `?from=…&to=…`; and in whose zone. Pure.

A time without an offset is one of the zone that `?zone=` names, or of the reader's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from foundation.http.filters import parse_moment
from foundation.http.query import refuse
from foundation.time_zones import is_time_zone

RANGES: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
DEFAULT: Final = "1h"
SLOTS_MAX: Final = 100
LONGEST: Final = timedelta(days=8)
SHORTEST: Final = timedelta(minutes=5)
_WALL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")
_STEPS: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """From `begin` on, `slots` times `step`. `name` is the word it was asked for by; empty for one of two moments."""

    name: str
    begin: datetime
    step: timedelta
    slots: int
    now: datetime
    zone: tzinfo = UTC
    """In which its times are written for the person who looks."""

    @property
    def end(self) -> datetime:
        return self.begin + self.step * self.slots

    @property
    def moments(self) -> list[datetime]:
        """When each slot begins."""
        return [self.begin + self.step * index for index in range(self.slots)]

    @property
    def query(self) -> str:
        """The part of an address that asks for it again; of a named one it goes with the time."""
        if self.name:
            return urlencode({"range": self.name})
        return _span(self.begin, self.end)

    @property
    def earlier(self) -> str:
        """Asks for the time before it, half of which is in it."""
        return self._moved(-(self.slots // 2))

    @property
    def later(self) -> str:
        """Asks for the time after it, half of which is in it; empty where that has not begun."""
        return self._moved(self.slots // 2) if self.end < self.now else ""

    @property
    def closer(self) -> str:
        """Asks for the half around its middle; empty where that is shorter than can be shown."""
        quarter = self._length / 4
        if quarter * 2 < SHORTEST:
            return ""
        return _span(self.begin + quarter, self.end - quarter)

    @property
    def wider(self) -> str:
        """Asks for twice as much around it, to now at most; empty where that is longer than can be shown."""
        half = self._length / 2
        end = max(self.end, min(self.end + half, self.now))
        return _span(end - self._length * 2, end) if self._length * 2 <= LONGEST else ""

    @property
    def zone_words(self) -> str:
        """What its times are in, as `Europe/Berlin`, or `UTC`."""
        return str(self.zone)

    @property
    def local(self) -> tuple[str, str]:
        """Its ends in the zone, as an input of a form takes them."""
        return (_wall(self.begin, self.zone), _wall(self.end, self.zone))

    @property
    def words(self) -> str:
        """`24 Nov 13:00 to 25 Nov 13:00`, in the zone."""
        begin, end = self.begin.astimezone(self.zone), self.end.astimezone(self.zone)
        return f"{begin:%d %b %H:%M} to {end:{'%H:%M' if begin.date() == end.date() else '%d %b %H:%M'}}"

    @property
    def _length(self) -> timedelta:
        return self.step * self.slots

    def _moved(self, slots: int) -> str:
        by = self.step * slots
        return _span(self.begin + by, self.end + by)


def read_range(asked: Mapping[str, str], *, now: datetime, zone: tzinfo = UTC) -> TimeRange:
    """The range that is asked for, the last hour where none is, to be shown in the zone. Raises Malformed, naming the
    argument.
    """
    if asked.get("from") or asked.get("to"):
        written = _zone_of(asked, zone)
        begin = _moment(asked, "from", written)
        end = _moment(asked, "to", written) if asked.get("to") else now
        if end - begin < SHORTEST:
            raise refuse("to", f"must be at least {SHORTEST.seconds // 60} minutes after from.")
        if end - begin > LONGEST:
            raise refuse("from", f"must be at most {LONGEST.days} days before to.")
        if end - now > LONGEST:
            raise refuse("to", f"must be at most {LONGEST.days} days from now.")
        return _of("", begin, end, now=now, zone=zone)
    name = asked.get("range") or DEFAULT
    if name not in RANGES:
        raise refuse("range", f"must be one of {', '.join(RANGES)}.")
    # The minute that runs is the last one.
    end = _floor(now, timedelta(minutes=1)) + timedelta(minutes=1)
    return _of(name, end - RANGES[name], end, now=now, zone=zone)


def _of(name: str, begin: datetime, end: datetime, *, now: datetime, zone: tzinfo) -> TimeRange:
    """Steps are whole minutes and begin at a multiple of one, so that a page asked again shows the same slots."""
    step = next((length for length in _STEPS if (end - begin) / length <= SLOTS_MAX), _STEPS[-1])
    first = _floor(begin, step)
    slots = -(-(end - first) // step)
    return TimeRange(name=name, begin=first, step=step, slots=slots, now=now, zone=zone)


def _zone_of(asked: Mapping[str, str], zone: tzinfo) -> tzinfo:
    """In which times without an offset are meant."""
    name = asked.get("zone")
    if not name:
        return zone
    if not is_time_zone(name):
        raise refuse("zone", "must be a time zone such as Europe/Berlin.")
    return ZoneInfo(name)


def _moment(asked: Mapping[str, str], name: str, zone: tzinfo) -> datetime:
    raw = asked.get(name, "")
    try:
        if _WALL.fullmatch(raw):
            return datetime.fromisoformat(raw).replace(tzinfo=zone).astimezone(UTC)
        return parse_moment(raw)
    except (ValueError, OverflowError) as error:
        raise refuse(name, "must be a time such as 2026-03-01T12:00:00Z.") from error


def _floor(moment: datetime, step: timedelta) -> datetime:
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    return epoch + step * ((moment - epoch) // step)


def _span(begin: datetime, end: datetime) -> str:
    return urlencode({"from": _text(begin), "to": _text(end)})


def _wall(moment: datetime, zone: tzinfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%dT%H:%M}"


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
