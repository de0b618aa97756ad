"""When those who wait will start, looked at for a whole pool at once.

The first answer of each stay in the queue is written down, so that the portal can say how often it was right. The
latest one of a long queue is kept for the cards that people look at: running it forward takes a second.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Final

import redis
from django.core.cache import cache
from django.db.models import Count, Exists, OuterRef

from quotas import snapshots
from quotas.estimates import EXACT_MOST, RUN_FORWARD, Estimate, estimate, estimate_all, estimate_at_once
from quotas.models import StartEstimate
from quotas.supply import Supply
from quotas.verdicts import PassPlan
from workloads.models import ResourceFlavor, Workload
from workloads.states import Desired, Phase

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 120
"""Age from which on a kept answer is not shown any more; four turns of the task."""


def estimate_starts(*, now: datetime) -> int:
    """Write down the start of everybody in line who has none written down; how many that were.

    What is known of long queues is kept for their cards, each time.
    """
    written = StartEstimate.objects.filter(workload=OuterRef("pk"), started_at__isnull=True)
    queued = Workload.objects.filter(phase=Phase.QUEUED.value, desired=Desired.RUN.value, units__gt=0)
    pools = (
        queued.order_by()
        .values_list("flavor", "capacity_type")
        .annotate(waiting=Count("pk"), unwritten=Count("pk", filter=~Exists(written)))
    )
    count = 0
    for flavor_id, capacity_type, waiting, unwritten in pools:
        if unwritten or waiting > EXACT_MOST:
            count += _of_pool(ResourceFlavor.objects.get(pk=flavor_id), capacity_type, now)
    return count


def start_of(workload: Workload, supply: Supply, *, given: PassPlan) -> Estimate:
    """When this one starts, which waits; of a long queue what was last found for all of it, if that is fresh.

    `given` is the plan of the Supply, which shows the workload.
    """
    identity = str(workload.public_id)
    at_once = estimate_at_once(supply, identity, given=given)
    if at_once is not None:
        return at_once
    kept = _kept(workload, supply) if len(supply.waiters) > EXACT_MOST else None
    return kept or estimate(supply, identity, given=given)


def _of_pool(flavor: ResourceFlavor, capacity_type: str, now: datetime) -> int:
    supply = snapshots.supply_of(flavor=flavor, capacity_type=capacity_type, now=now, history=True)
    guesses = estimate_all(supply)
    if len(supply.waiters) > EXACT_MOST:
        _keep(flavor.pk, capacity_type, guesses, now)
    keys = [each.sequence for each in supply.waiters]
    open_ones = StartEstimate.objects.filter(workload__in=keys, started_at__isnull=True)
    rows = Workload.objects.exclude(pk__in=open_ones.values("workload")).in_bulk(keys)
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


def _key(flavor_id: int, capacity_type: str) -> str:
    return f"forecast:{flavor_id}:{capacity_type}"


def _keep(flavor_id: int, capacity_type: str, guesses: Mapping[str, Estimate], now: datetime) -> None:
    found = {name: asdict(_dated(guess, now)) for name, guess in guesses.items()}
    try:
        cache.set(_key(flavor_id, capacity_type), found, KEPT_SECONDS)
    except (redis.RedisError, OSError):
        log.warning("forecast.not_kept", exc_info=True)


def _dated(guess: Estimate, now: datetime) -> Estimate:
    return (
        replace(guess, basis=f"{RUN_FORWARD}, at {now:%H:%M:%S} UTC") if guess.basis == RUN_FORWARD else guess
    )


def _kept(workload: Workload, supply: Supply) -> Estimate | None:
    """None also while the cache is away: then each card does its own work."""
    if workload.flavor_id is None:
        return None
    try:
        found: Mapping[str, Any] = cache.get(_key(workload.flavor_id, workload.capacity_type)) or {}
    except (redis.RedisError, OSError):
        log.warning("forecast.not_read", exc_info=True)
        return None
    values = found.get(str(workload.public_id))
    if values is None:
        return None
    guess = Estimate(**values)
    # It has not started yet: what was found to be past by now is now at the soonest.
    return replace(guess, p50=_not_before(guess.p50, supply.now), p90=_not_before(guess.p90, supply.now))


def _not_before(seconds: int | None, now: int) -> int | None:
    return None if seconds is None else max(seconds, now)
