"""Which queue a task goes to, and how many threads of the worker do nothing else.

A cluster that hangs holds every thread that asks it. The sweep, the other periodic jobs and the passes of admission
have threads of their own, so that only reconciles wait for it.
"""

from __future__ import annotations

from typing import Any, Final

SWEEPS: Final = "portal-sweeps"
PERIODIC: Final = "portal-periodic"
PASSES: Final = "portal-passes"
RECONCILES: Final = "portal-reconciles"
NOTICES: Final = "portal-notices"

THREADS: Final[dict[str, int]] = {
    # What finds lost work, and what shows that the worker is alive: neither asks the cluster anything.
    SWEEPS: 1,
    # Two of these jobs ask the cluster; one thread is left for the jobs that do not.
    PERIODIC: 3,
    PASSES: 2,
    RECONCILES: 8,
    # Waits for other people's servers, some of which hang.
    NOTICES: 1,
}
ROUTES: Final[dict[str, dict[str, Any]]] = {
    "controller.sweep_due_workloads": {"queue": SWEEPS},
    "portal.tasks.worker_heartbeat": {"queue": SWEEPS},
    "controller.pass_over_pool": {"queue": PASSES},
    "controller.reconcile_workload": {"queue": RECONCILES},
    "jobs.tasks.advance_sweep": {"queue": RECONCILES},
    "notices.tasks.deliver": {"queue": NOTICES},
}
DEFAULT: Final = PERIODIC
