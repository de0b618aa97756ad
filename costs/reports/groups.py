"""What a report consists of, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from costs.reports.windows import CostWindow
from workloads.models import Workload

GROUPS = ("team", "user", "project", "flavor", "capacity", "phase", "workload", "day", "month")
ORDERINGS = ("-amount", "amount", "key", "-key")
BY_TIME = frozenset({"day", "month"})
PHASES = ("starting", "running", "stopping")
WAITING = "waiting"
UNTOLD = ""
"""The phase of what the ledger held before it kept phases."""


@dataclass(frozen=True, kw_only=True)
class CostFilters:
    """What is counted; None counts all. An empty collection counts nothing."""

    users: Collection[int] | None = None
    projects: Collection[str] | None = None
    flavors: Collection[str] | None = None
    capacities: Collection[str] | None = None

    @property
    def any(self) -> bool:
        return any(
            chosen is not None for chosen in (self.users, self.projects, self.flavors, self.capacities)
        )


@dataclass(frozen=True, kw_only=True)
class CostGroup:
    """What one team, person, workload, day… spent, in micro-USD."""

    key: str
    """Team slug, username, project, flavor, capacity, phase, id of the workload, `2026-11-24` or `2026-11`."""
    name: str
    amount_micro_usd: int
    """What is posted and what has come up since."""
    running_micro_usd: int = 0
    """Of it, what is not posted yet: it grows from second to second, or waits for its next settlement."""
    workload: Workload | None = None
    """Of a group that is a run or an endpoint, with its team, owner and flavor."""


@dataclass(frozen=True, kw_only=True)
class CostReport:
    groups: list[CostGroup]
    window: CostWindow
    total_micro_usd: int
    """Of all groups, those that are left out too."""
    running_micro_usd: int
    complete: bool
    """Whether all groups are told; else only the first `limit` in their order."""
    unpriced: bool
    """Whether something is used that has no price: it is not in the sums."""


@dataclass
class Sums:
    """Amounts of one key: all, and of it those of each phase."""

    posted: int = 0
    running: int = 0
    phases: dict[str, int] = field(default_factory=dict)
