"""Periodic work on money."""

from __future__ import annotations

from typing import Any

from budgets.looks import look_at_budgets
from foundation import clock, leases
from foundation.tasks import task

LEASE_SECONDS = 25
"""Less than the 30 seconds between two beats."""


@task(name="budgets.look_at_budgets")
def look_at_all_budgets(**_future: Any) -> None:
    """Renew what endpoints are promised, open periods that have begun, warn, and make up for lost messages."""
    with leases.periodic("budgets", seconds=LEASE_SECONDS) as ours:
        if ours:
            look_at_budgets(now=clock.now())
