"""Which time a request for metrics is about: `from`, `to` and `step`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from foundation.digits import whole_number
from foundation.http import filters
from foundation.http.query import one, refuse

RANGE_PARAMETERS: Final = [
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="An hour before `to` unless given."),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="Now unless given."),
    OpenApiParameter(
        "step", OpenApiTypes.INT, description="Seconds, whole minutes; what suits the time unless given."
    ),
]
RANGE_NAMES: Final = ("from", "to", "step")
SLOTS_MAX: Final = 500
_SLOTS_WANTED: Final = 150
_STEPS: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 360, 1440))
_LONGEST: Final = timedelta(days=400)
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)


def asked_range(request: Any, *, now: datetime) -> tuple[datetime, timedelta, int]:
    """The beginning, the step and how many of them. Raises Malformed naming the parameter."""
    end = filters.asked_moment(request, "to") or now
    if not _FIRST <= end <= now + _LONGEST:
        raise refuse("to", f"must be after {_FIRST:%Y-%m-%d}, and not far in the future.")
    begin = filters.asked_moment(request, "from") or end - timedelta(hours=1)
    if begin >= end:
        raise refuse("from", "must be before to.")
    if end - begin > _LONGEST:
        raise refuse("from", f"must be at most {_LONGEST.days} days before to.")
    step = _step(request)
    if step is None:
        return in_steps(begin, end)
    slots = -(-(end - begin) // step)
    if slots > SLOTS_MAX:
        raise refuse("step", f"gives more than {SLOTS_MAX} steps; make it longer.")
    return begin, step, slots


def in_steps(begin: datetime, end: datetime) -> tuple[datetime, timedelta, int]:
    """The time in the shortest of the usual steps that gives no more of them than a chart shows."""
    fits = (step for step in _STEPS if (end - begin) / step <= _SLOTS_WANTED)
    step = next(fits, _STEPS[-1])
    # The same steps for who asks again soon, so that the cache has them.
    first = _FIRST + step * ((begin - _FIRST) // step)
    return first, step, -(-(end - first) // step)


def _step(request: Any) -> timedelta | None:
    raw = one(request, "step")
    if raw is None:
        return None
    seconds = whole_number(raw, digits=7) or 0
    if seconds < 60 or seconds % 60:
        raise refuse("step", "must be whole minutes, in seconds: 60, 120 ….")
    return timedelta(seconds=seconds)
