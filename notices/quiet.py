"""When a notice may go: after quiet hours, and after a failure later and later. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from zoneinfo import ZoneInfo

ATTEMPTS_MAX: Final = 14
"""Then it is a dead letter: after about a day and a half."""
FIRST_PAUSE: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(hours=6)
RECEIVER_PAUSE_MAX: Final = timedelta(minutes=5)
RETRY_AFTER_MAX: Final = timedelta(hours=1)
"""How long a receiver is left alone at most because it asks for it."""


def pause_after(failures: int) -> timedelta:
    """5, 15, 45 seconds … 6 hours."""
    factor: int = 3 ** min(failures - 1, 10)
    return min(LONGEST_PAUSE, FIRST_PAUSE * factor)


def receiver_pause_after(failures: int) -> timedelta:
    """How long a receiver is left alone that has failed so often in a row."""
    return min(RECEIVER_PAUSE_MAX, pause_after(failures))


def asked_pause(text: str, *, now: datetime) -> timedelta:
    """What `Retry-After` asks for, in seconds or as a date of HTTP; none for what is neither."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        asked = timedelta(seconds=int(text[:9]))
    else:
        try:
            until = parsedate_to_datetime(text)
        except ValueError:
            return timedelta(0)
        asked = (until if until.tzinfo else until.replace(tzinfo=UTC)) - now
    return min(max(asked, timedelta(0)), RETRY_AFTER_MAX)


def end_of_quiet(
    now: datetime, *, quiet_from: time | None, quiet_until: time | None, time_zone: str
) -> datetime:
    """`now`, or when the quiet hours that it lies in end. They may go over midnight; equal times are none."""
    if quiet_from is None or quiet_until is None or quiet_from == quiet_until:
        return now
    zone = ZoneInfo(time_zone)
    local = now.astimezone(zone)
    at = local.time()
    if quiet_from < quiet_until:
        is_quiet, ends_tomorrow = quiet_from <= at < quiet_until, False
    else:
        is_quiet, ends_tomorrow = at >= quiet_from or at < quiet_until, at >= quiet_from
    if not is_quiet:
        return now
    day = local.date() + timedelta(days=int(ends_tomorrow))
    # Where clocks are put back, the end may seem to be before now: then it is now.
    return max(now, datetime.combine(day, quiet_until, tzinfo=zone))
