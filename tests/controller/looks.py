"""A look at one that waits, without the rest of a reconcile."""

from __future__ import annotations

from controller.admission import scheduler
from foundation import clock
from policy.verdicts import Verdict
from workloads import locks
from workloads.models import Workload


def look(row: Workload) -> Verdict:
    """Admits it or writes down why not, under its lock."""
    locked = locks.lock(public_id=row.public_id, now=clock.now())
    verdict = scheduler.admit(locked, now=clock.now())
    locks.unlock(locked, next_at=None, failed=False)
    row.refresh_from_db()
    return verdict
