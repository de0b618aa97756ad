"""Which time the page of a workload draws, and in whose zone: one for all drawings, kept in the address."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from django.http import HttpRequest

from console.pages.reading import PageReading
from pages.time_ranges import RANGES, ZONE_COOKIE, TimeRange, read_range, zone_named


def zone_of(request: HttpRequest) -> tzinfo:
    """The zone of the person who looks, as their browser has told; UTC until it has."""
    return zone_named(request.COOKIES.get(ZONE_COOKIE))


def range_facts(asked: PageReading[Any], *, shown: TimeRange | None = None) -> dict[str, Any]:
    """What the bar above drawings says. `shown` is given where the address does not say all. Raises Malformed for a
    range that is none.
    """
    request = asked.request
    if shown is None:
        shown = read_range(request.GET, now=asked.now, zone=zone_of(request))
    return {"shown": shown, "ranges": list(RANGES)}
