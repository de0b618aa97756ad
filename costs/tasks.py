"""Periodic work on the ledger."""

from __future__ import annotations

from typing import Any

from costs.ledger import check, idle, lost_work
from costs.reports.check import check_some
from foundation import clock, leases
from foundation.tasks import task

LEASE_SECONDS = 25
"""Less than the 30 seconds between two beats."""
SUPPLY_LEASE_SECONDS = 290
"""Less than the five minutes between two beats."""


@task(name="costs.sweep_supply")
def sweep_supply(**_future: Any) -> None:
    """Post what nobody held of the nodes' cards."""
    with leases.periodic("supply", seconds=SUPPLY_LEASE_SECONDS) as ours:
        if ours:
            idle.sweep(now=clock.now())


@task(name="costs.credit_lost_work")
def credit_lost_work(**_future: Any) -> None:
    """Put a price on work that was lost, and credit what the platform destroyed."""
    with leases.periodic("lost-work", seconds=LEASE_SECONDS) as ours:
        if ours:
            lost_work.credit_due(now=clock.now())


@task(name="costs.check_ledger")
def check_ledger(**_future: Any) -> None:
    """Recompute a part of the ledger from what it was posted by, and remember what differs."""
    with leases.periodic("check-ledger", seconds=LEASE_SECONDS) as ours:
        if ours:
            check.go_on(now=clock.now())


@task(name="costs.check_rollups")
def check_rollups(**_future: Any) -> None:
    """Compare some more of the sums that reports are made of with the ledger's lines."""
    with leases.periodic("cost-rollups", seconds=LEASE_SECONDS) as ours:
        if ours:
            check_some(now=clock.now())
