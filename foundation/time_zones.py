"""Which time zones there are. Pure."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones


def is_time_zone(text: str) -> bool:
    """Whether it is the name of one of the IANA database, as that is written."""
    return text in _names()


@cache
def time_zones() -> tuple[str, ...]:
    """Those that people choose among: UTC, then every place by its region."""
    regions = (
        "Africa/",
        "America/",
        "Antarctica/",
        "Asia/",
        "Atlantic/",
        "Australia/",
        "Europe/",
        "Indian/",
        "Pacific/",
    )
    return ("UTC", *sorted(name for name in _names() if name.startswith(regions)))


@cache
def _names() -> frozenset[str]:
    """Read from the disk, once."""
    return frozenset(available_timezones())
