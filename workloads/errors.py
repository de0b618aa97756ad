from __future__ import annotations

from foundation.errors import Conflict


class InvalidTransition(Conflict):
    code = "invalid_transition"


class StaleWorkload(Conflict):
    """The row moved on, or another worker holds its lock: drop the result and look again."""

    code = "stale_workload"


class TooManyWorkloads(Conflict):
    """The team has as many that have not ended as it may."""

    code = "too_many_workloads"


class NameTaken(Conflict):
    code = "name_taken"
