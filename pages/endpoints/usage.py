"""What an endpoint was used for and cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from console.pages.panels import cost
from console.pages.reading import PageReading
from gateway.series import classes_by_step

DAY: Final = timedelta(hours=24)
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
THOUSAND: Final = 1000


def usage_panel(asked: PageReading[Any]) -> dict[str, Any]:
    """A line a pod and the totals, and how often it was called of late; money in micro-USD."""
    now = asked.now
    calls = classes_by_step(endpoint=asked.workload, begin=now - DAY, end=now, step=MINUTE)
    of_hour = sum(sum(classes.values()) for at, classes in calls.items() if at >= now - HOUR)
    facts = cost(asked)
    rate = facts["cost_total"].current_rate_per_hour
    return {
        **facts,
        "calls_of_day": sum(sum(classes.values()) for classes in calls.values()),
        "calls_of_hour": of_hour,
        "cost_of_thousand": rate * THOUSAND // of_hour if rate and of_hour else None,
    }
