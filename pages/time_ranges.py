"""Which time a page of figures shows, as its address says: `?range=6h`, or `?from=…&to=…`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from foundation.http.filters import parse_moment
from foundation.http.query import refuse

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
_STEPS: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """From `begin` on, `slots` times `step`. `name` is the word it was asked for by; empty for one of two moments."""

    name: str
    begin: datetime
    step: timedelta
    slots: int

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
        return urlencode({"from": _text(self.begin), "to": _text(self.end)})


def read_range(asked: Mapping[str, str], *, now: datetime) -> TimeRange:
    """The range that is asked for, the last hour where none is. Raises Malformed, naming the argument."""
    if asked.get("from") or asked.get("to"):
        begin = _moment(asked, "from")
        end = _moment(asked, "to") if asked.get("to") else now
        if end - begin < SHORTEST:
            raise refuse("to", f"must be at least {SHORTEST.seconds // 60} minutes after from.")
        if end - begin > LONGEST:
            raise refuse("from", f"must be at most {LONGEST.days} days before to.")
        if end - now > LONGEST:
            raise refuse("to", f"must be at most {LONGEST.days} days from now.")
        return _of("", begin, end)
    name = asked.get("range") or DEFAULT
    if name not in RANGES:
        raise refuse("range", f"must be one of {', '.join(RANGES)}.")
    # The minute that runs is the last one.
    end = _floor(now, timedelta(minutes=1)) + timedelta(minutes=1)
    return _of(name, end - RANGES[name], end)


def _of(name: str, begin: datetime, end: datetime) -> TimeRange:
    """Steps are whole minutes and begin at a multiple of one, so that a page asked again shows the same slots."""
    step = next((length for length in _STEPS if (end - begin) / length <= SLOTS_MAX), _STEPS[-1])
    first = _floor(begin, step)
    return TimeRange(name=name, begin=first, step=step, slots=-(-(end - first) // step))


def _moment(asked: Mapping[str, str], name: str) -> datetime:
    try:
        return parse_moment(asked.get(name, ""))
    except ValueError as error:
        raise refuse(name, "must be a time such as 2026-03-01T12:00:00Z.") from error


def _floor(moment: datetime, step: timedelta) -> datetime:
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    return epoch + step * ((moment - epoch) // step)


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
