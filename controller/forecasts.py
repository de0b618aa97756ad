"""Keeps the first estimate that each stay in the queue was given, so that the portal can say how often it was right."""

from __future__ import annotations

from datetime import UTC, datetime

from quotas import snapshots
from quotas.estimates import Estimate, estimate_all
from quotas.models import StartEstimate
from workloads.models import ResourceFlavor, Workload
from workloads.states import Desired, Phase


def estimate_starts(*, now: datetime) -> int:
    """Write down the start of everybody in line who has none written down; how many that were."""
    queued = Workload.objects.filter(phase=Phase.QUEUED.value, desired=Desired.RUN.value, units__gt=0)
    unknown = queued.exclude(start_estimates__in=StartEstimate.objects.filter(started_at__isnull=True))
    written = 0
    for flavor_id, capacity_type in unknown.order_by().values_list("flavor", "capacity_type").distinct():
        written += _of_pool(ResourceFlavor.objects.get(pk=flavor_id), capacity_type, now)
    return written


def _of_pool(flavor: ResourceFlavor, capacity_type: str, now: datetime) -> int:
    supply = snapshots.supply_of(flavor=flavor, capacity_type=capacity_type, now=now, history=True)
    keys = [each.sequence for each in supply.waiters]
    known = set(
        StartEstimate.objects.filter(workload__in=keys, started_at__isnull=True).values_list(
            "workload", flat=True
        )
    )
    rows = {
        each.pk: each for each in Workload.objects.filter(pk__in=[key for key in keys if key not in known])
    }
    if not rows:
        return 0
    guesses = estimate_all(supply)
    made = StartEstimate.objects.bulk_create(
        [
            _row(rows[each.sequence], guesses[each.id], now)
            for each in supply.waiters
            if each.sequence in rows
        ],
        ignore_conflicts=True,
    )
    return len(made)


def _row(workload: Workload, guess: Estimate, now: datetime) -> StartEstimate:
    return StartEstimate(
        workload=workload,
        team_id=workload.team_id,
        queued_at=workload.queued_at,
        made_at=now,
        p50=_moment(guess.p50),
        p90=_moment(guess.p90),
        basis=guess.basis,
        unknown_because=guess.unknown_because or "",
    )


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
