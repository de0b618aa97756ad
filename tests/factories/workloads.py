"""Workload rows as a submission would make them, without the kind's own rows."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

from django.db.models import Case, F, When

from foundation import clock
from tests.factories.teams import make_team, make_user
from workloads.models import Workload
from workloads.services import create_workload
from workloads.states import Phase, Priority

_numbers = count(1)


def make_workload(**values: Any) -> Workload:
    """A queued workload of a new team and owner unless given; `units` 0 unless a flavor is given."""
    flavor = values.get("flavor")
    fields: dict[str, Any] = {
        "kind": "training-run",
        "name": f"run-{next(_numbers)}",
        "priority": Priority.NORMAL,
        "flavor": None,
        "capacity_type": "on-demand",
        "units": 1 if flavor else 0,
        "pod_count": 1,
        "preemptible": False,
        "time_limit_seconds": None,
        "max_retries": 0,
        "labels": {},
        "actor": "tests",
        "simulated": False,
        "now": clock.now(),
        **values,
    }
    fields.setdefault("units_each", fields["units"])
    fields.setdefault("team", None)
    fields["team"] = fields["team"] or make_team()
    fields["owner"] = fields.get("owner") or make_user()
    return create_workload(**fields)


def put_in(workload: Workload, phase: Phase, **values: Any) -> Workload:
    """Set a phase behind the state machine's back."""
    now = clock.now()
    if phase in {Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED}:
        values.setdefault("finished_at", now)
    if phase is Phase.STOPPING:
        values.setdefault("stopping_to", Phase.CANCELLED.value)
    Workload.objects.filter(pk=workload.pk).update(phase=phase.value, **values)
    return Workload.objects.select_related("team", "owner", "flavor").get(pk=workload.pk)


def age_lock(workload: Workload, *, seconds: float) -> None:
    """Let that much of a lock's time pass. The database's clock cannot be moved, so what it is compared with is: the
    row, and what its holder counts, if `workload` is the holder's.
    """
    passed = timedelta(seconds=seconds)
    unwoken = When(next_reconcile_at=F("lock_expires_at"), then=F("next_reconcile_at") - passed)
    Workload.objects.filter(pk=workload.pk).update(
        lock_expires_at=F("lock_expires_at") - passed,
        next_reconcile_at=Case(unwoken, default=F("next_reconcile_at")),
    )
    workload.lock_renewed_at -= seconds
