"""Rows under the measurements: teams, quotas and nodes by the portal's services, workloads in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connection

from foundation import clock
from quotas.cohorts import create_cohort
from quotas.limits import set_limits
from quotas.models import Cohort, Quota
from teams.actors import Actor
from teams.models import Team, User
from teams.services import create_team, create_user
from workloads.models import CapacityType, NodeRecord, ResourceFlavor, Workload
from workloads.placement import PRODUCT_LABEL
from workloads.states import Phase, Priority, Reason

ACTOR = Actor.system("benchmarks")
ON_DEMAND = CapacityType.ON_DEMAND.value
BATCH = 2_000


def make_owner() -> User:
    return create_user(actor=ACTOR, username=f"user-{uuid4().hex[:8]}", password=None, now=clock.now())


def make_flavor(name: str) -> ResourceFlavor:
    """Whole cards of a product of their own, so that no other flavor shares its nodes."""
    return ResourceFlavor.objects.create(
        name=name, card=name, memory_gib=40, node_selector={PRODUCT_LABEL: [name]}, capacity={ON_DEMAND: {}}
    )


def make_nodes(flavor: ResourceFlavor, *, count: int, units: int) -> None:
    NodeRecord.objects.bulk_create(
        NodeRecord(
            uid=f"uid-{flavor.name}-{number}",
            name=f"{flavor.name}-{number:04}",
            resource_version="1",
            labels={PRODUCT_LABEL: flavor.name},
            allocatable={flavor.resource: units},
            ready=True,
            created_at=clock.now(),
        )
        for number in range(count)
    )


def make_teams(prefix: str, *, count: int, cohorts: int = 0) -> list[Team]:
    """Teams, dealt out to the cohorts in blocks of equal size; of no cohort where there are none."""
    names = [f"{prefix}-cohort-{number}" for number in range(cohorts)]
    for name in names:
        if not Cohort.objects.filter(name=name).exists():
            create_cohort(name=name, parent=None, actor=ACTOR, now=clock.now())
    return [
        create_team(
            actor=ACTOR,
            slug=f"{prefix}-{number:03}",
            name=f"{prefix} {number}",
            now=clock.now(),
            cohort_name=names[number * cohorts // count] if names else "",
        )
        for number in range(count)
    ]


def make_quota(team: Team, flavor: ResourceFlavor, *, nominal: int, borrowing: int | None = None) -> Quota:
    return set_limits(
        team=team,
        flavor=flavor,
        capacity_type=ON_DEMAND,
        limits={"nominal": nominal, "borrowing_limit": borrowing},
        reason="benchmark",
        actor=ACTOR,
        now=clock.now(),
    )


def queued(team: Team, owner: User, flavor: ResourceFlavor, **values: Any) -> Workload:
    """A queued run that is not saved; the fields of `create_workload`, none of its events."""
    now = values.pop("at", None) or clock.now()
    units = values.pop("units", 1)
    facts: dict[str, Any] = {
        "kind": "training-run",
        "name": uuid4().hex[:20],
        "priority": Priority.NORMAL.value,
        "capacity_type": ON_DEMAND,
        "units": units,
        "units_each": units,
        "pod_count": 1,
        "time_limit_seconds": 3600,
        "phase": Phase.QUEUED.value,
        "reason": Reason.WAITING_FOR_QUOTA.value,
        "since": now,
        "created_at": now,
        "queued_at": now,
        **values,
    }
    return Workload(team=team, owner=owner, flavor=flavor, **facts)


def save(workloads: Sequence[Workload]) -> list[Workload]:
    return Workload.objects.bulk_create(workloads, batch_size=BATCH)


def empty_queues() -> None:
    """All workloads go, with all that belongs to them; every counter of every quota is 0 again."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE workloads_workload CASCADE")
        cursor.execute("UPDATE quotas_quota SET used = 0, headroom = 0, lent_headroom = 0, decayed_use = 0")
        cursor.execute("UPDATE quotas_cohortusage SET used = 0")
        cursor.execute("UPDATE quotas_pool SET due_at = NULL")
    vacuum()


def vacuum() -> None:
    """Every round begins with tables that hold no dead rows."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def ago(**values: float) -> Any:
    return clock.now() - timedelta(**values)
