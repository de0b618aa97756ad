"""What texts of an endpoint request may look like. Pure."""

from __future__ import annotations

import re

from foundation.time_zones import is_time_zone
from workloads.podspec.grammar import Fault

_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_NAMES = (
    (),
    (),
    (),
    ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
    ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
)
_PART = re.compile(r"(\*|[0-9A-Z]{1,3}(?:-[0-9A-Z]{1,3})?)(?:/([0-9]{1,2}))?", re.ASCII)


def cron_expression(text: str) -> Fault | None:
    """Five fields: minute, hour, day of month, month, day of week."""
    fields = text.split()
    if len(text) <= 200 and len(fields) == 5 and all(map(_is_field, range(5), fields)):
        return None
    message = (
        "A time is a cron expression of five fields (minute, hour, day of month, month, day of week), such as "
        "0 8 * * 1-5."
    )
    return Fault("invalid_cron", message)


def _is_field(index: int, text: str) -> bool:
    return all(_is_part(index, part) for part in text.upper().split(","))


def _is_part(index: int, text: str) -> bool:
    match = _PART.fullmatch(text)
    if match is None or (match[2] is not None and int(match[2]) == 0):
        return False
    if match[1] == "*":
        return True
    values = [_value(index, bound) for bound in match[1].split("-")]
    least, most = _RANGES[index]
    known = [value for value in values if value is not None and least <= value <= most]
    return len(known) == len(values) and known == sorted(known)


def _value(index: int, text: str) -> int | None:
    if text.isdigit():
        return int(text)
    names = _NAMES[index]
    # Months count from 1, days from 0.
    return names.index(text) + _RANGES[index][0] if text in names else None


def time_zone(text: str) -> Fault | None:
    """A name of the IANA database."""
    if is_time_zone(text):
        return None
    return Fault(
        "unknown_time_zone", f"{text[:64]!r} is no time zone of the IANA database, such as Europe/Berlin."
    )


def one_query(text: str) -> Fault | None:
    """PromQL, as far as that can be said without asking Prometheus."""
    if all(character.isprintable() or character in "\n\t" for character in text):
        return None
    return Fault("invalid_query", "A query holds no control characters.")
