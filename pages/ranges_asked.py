"""Which time the page of a workload draws, in the zone of its reader: one for all drawings, kept in the address."""

from __future__ import annotations

from typing import Any

from console.pages.reading import PageReading
from foundation.time_zones import reader_zone
from pages.time_ranges import RANGES, TimeRange, read_range


def range_facts(asked: PageReading[Any], *, shown: TimeRange | None = None) -> dict[str, Any]:
    """What the bar above drawings says. `shown` is given where the address does not say all. Raises Malformed for a
    range that is none.
    """
    if shown is None:
        shown = read_range(asked.request.GET, now=asked.now, zone=reader_zone())
    return {"shown": shown, "ranges": list(RANGES)}
