"""Samples in memory, for some minutes and up to a number of series."""

from __future__ import annotations

import bisect
import math
import re
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

NAME = "__name__"
SERIES_MAX = 20_000
_STALE = struct.pack("<Q", 0x7FF0000000000002)
STALE: float = struct.unpack("<d", _STALE)[0]
"""Marks a series that its target no longer has: a NaN of its own, as in Prometheus."""

Labels = Mapping[str, str]


class FullError(Exception):
    """There are too many series."""


def is_stale(value: float) -> bool:
    return math.isnan(value) and struct.pack("<d", value) == _STALE


@dataclass(slots=True)
class Series:
    """One set of labels; times are Unix milliseconds, rising."""

    labels: dict[str, str]
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def append(self, at: int, value: float) -> None:
        """A sample that is not newer than the last is left out."""
        if not self.times or at > self.times[-1]:
            self.times.append(at)
            self.values.append(value)

    def latest(self, after: int, until: int) -> tuple[int, float] | None:
        """The newest sample of `after` < time <= `until`; None where it says that the series has ended."""
        index = bisect.bisect_right(self.times, until) - 1
        if index < 0 or self.times[index] <= after or is_stale(self.values[index]):
            return None
        return self.times[index], self.values[index]

    def between(self, after: int, until: int) -> list[tuple[int, float]]:
        """The samples of `after` < time <= `until`, without marks of an end."""
        first, last = bisect.bisect_right(self.times, after), bisect.bisect_right(self.times, until)
        pairs = zip(self.times[first:last], self.values[first:last], strict=True)
        return [(at, value) for at, value in pairs if not is_stale(value)]

    def forget(self, before: int) -> None:
        first = bisect.bisect_left(self.times, before)
        if first:
            del self.times[:first]
            del self.values[:first]


@dataclass(frozen=True, slots=True)
class Matcher:
    """`label="value"` and its three sisters. An absent label is an empty one."""

    label: str
    operator: str
    value: str

    def test(self) -> Callable[[str], bool]:
        """ValueError for a regular expression that is none."""
        value = self.value
        match self.operator:
            case "=":
                return lambda text: text == value
            case "!=":
                return lambda text: text != value
        try:
            pattern = re.compile(f"(?:{value})", re.DOTALL)
        except re.error as error:
            raise ValueError(f"error parsing regexp: {error}: `{value}`") from error
        if self.operator == "=~":
            return lambda text: pattern.fullmatch(text) is not None
        return lambda text: pattern.fullmatch(text) is None


class Storage:
    """All series, by their metric's name."""

    def __init__(self, keep_seconds: float = 900.0, most: int = SERIES_MAX) -> None:
        self.keep_seconds, self._most = keep_seconds, most
        self._by_name: dict[str, dict[frozenset[tuple[str, str]], Series]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, labels: Labels, at: int, value: float) -> None:
        """Raises FullError for a series too many."""
        known, key = self._by_name.setdefault(labels[NAME], {}), frozenset(labels.items())
        series = known.get(key)
        if series is None:
            if self._count >= self._most:
                raise FullError(f"there are {self._count} series, no more are kept")
            series = known[key] = Series({label: text for label, text in sorted(labels.items()) if text})
            self._count += 1
        series.append(at, value)

    def select(self, matchers: Iterable[Matcher]) -> list[Series]:
        tests = [(matcher.label, matcher.test()) for matcher in matchers]
        names = [matcher.value for matcher in matchers if (matcher.label, matcher.operator) == (NAME, "=")]
        groups = [self._by_name.get(names[0], {})] if names else list(self._by_name.values())
        return [
            series
            for group in groups
            for series in group.values()
            if all(test(series.labels.get(label, "")) for label, test in tests)
        ]

    def forget(self, now: int) -> None:
        """Drop what is too old, and series of which nothing is left."""
        before = now - int(self.keep_seconds * 1000)
        for name, group in list(self._by_name.items()):
            for key, series in list(group.items()):
                series.forget(before)
                if not series.times:
                    del group[key]
                    self._count -= 1
            if not group:
                del self._by_name[name]
