"""How often a run may report: counted in the cache by the attempt, each sort of report by itself."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

import redis
from django.core.cache import cache

from foundation.errors import RateLimited
from workloads.models import Attempt

log = logging.getLogger(__name__)

REPORTS_A_MINUTE: Final = 120
BODY_BYTES_MAX: Final = 32 * 1024
_MINUTE: Final = 60


def count_report(*, attempt: Attempt, sort: str, now: datetime) -> None:
    """Count a report. Raises RateLimited beyond 120 of the sort within a minute, until the next one begins.

    While the cache is away no report is counted: what is kept of them is bounded by itself.
    """
    seconds = int(now.timestamp())
    key = f"reports:{attempt.pk}:{sort}:{seconds // _MINUTE}"
    try:
        reported = 1 if cache.add(key, 1, 2 * _MINUTE) else int(cache.incr(key))
    except (redis.RedisError, OSError, ValueError):
        log.warning("reports.not_counted", exc_info=True)
        return
    if reported > REPORTS_A_MINUTE:
        raise RateLimited(
            f"A run reports {sort} at most {REPORTS_A_MINUTE} times a minute.",
            code="too_many_reports",
            retry_after_seconds=_MINUTE - seconds % _MINUTE,
        )
