"""Start estimates for queued workloads, computed for a whole pool at once.

The first estimate of each stay in the queue is stored, so that the portal can report how often it was right. The
latest forecast of a long queue is cached for the waiting cards, because simulating such a queue takes a second.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import redis
from django.core.cache import cache
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, QuerySet

from foundation import leases
from policy.estimates import (
    EXACT_MOST,
    FREE_NOW,
    RUN_FORWARD,
    Estimate,
    estimate,
    estimate_all,
    estimate_at_once,
)
from policy.judge import plan, position, positions
from policy.pool_snapshot import PoolSnapshot, Waiter
from policy.verdicts import CyclePlan, Outcome, Verdict
from quotas import snapshots
from quotas.elsewhere import with_elsewhere
from quotas.models import StartEstimate
from workloads.models import ResourceFlavor, Workload
from workloads.states import Desired, Phase, Reason

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 90
"""Age from which on a kept answer is not shown any more; three turns of the task."""
FURTHEST_SECONDS: Final = 10 * 366 * 86_400
"""No computed start lies further away."""
RESTS: Final = "the end of its pause"


def estimate_starts(*, now: datetime) -> int:
    """Store a start estimate for every queued workload that has none; returns how many.

    Forecasts of long queues are cached for their waiting cards on every call.
    """
    _score_those_who_left(now)
    queued = Workload.objects.filter(phase=Phase.QUEUED.value, desired=Desired.RUN.value, units__gt=0)
    pools = (
        queued.order_by()
        .values_list("flavor", "capacity_type")
        .annotate(waiting=Count("pk"), unwritten=Count("pk", filter=~Exists(_written())))
    )
    count = 0
    for flavor_id, capacity_type, waiting, unwritten in pools:
        if unwritten or waiting > EXACT_MOST:
            count += _of_pool(ResourceFlavor.objects.get(pk=flavor_id), capacity_type, now)
    return count


def start_of(workload: Workload, snapshot: PoolSnapshot, *, cycle_plan: CyclePlan) -> Estimate:
    """The estimated start of this queued workload; in a long queue, from the cached forecast if that is fresh.

    `cycle_plan` is the plan of the snapshot, which includes the workload.
    """
    identity = str(workload.public_id)
    at_once = estimate_at_once(snapshot, identity, cycle_plan=cycle_plan)
    if at_once is not None:
        return at_once
    kept = _kept(workload, snapshot, cycle_plan) if len(snapshot.waiters) > EXACT_MOST else None
    return kept or estimate(snapshot, identity, cycle_plan=cycle_plan)


def _of_pool(flavor: ResourceFlavor, capacity_type: str, now: datetime) -> int:
    snapshot = snapshots.pool_snapshot_of(flavor=flavor, capacity_type=capacity_type, now=now, history=True)
    cycle_plan = plan(snapshot)
    judged = ((waiter.team, cycle_plan.verdicts[waiter.id]) for waiter in snapshot.waiters)
    snapshot = with_elsewhere(snapshot, judged, now=now)
    guesses = estimate_all(snapshot, cycle_plan=cycle_plan)
    if len(snapshot.waiters) > EXACT_MOST:
        _keep(_key(flavor.pk, capacity_type), snapshot, cycle_plan, guesses, now)
    # Workloads that can start now get no estimate: a second later it would count as a miss.
    keys = [waiter.sequence for waiter in snapshot.waiters if guesses[waiter.id].basis != FREE_NOW]
    rows = Workload.objects.filter(~Exists(_written()), pk__in=keys).in_bulk()
    new = [
        _row(rows[waiter.sequence], guesses[waiter.id], now)
        for waiter in snapshot.waiters
        if waiter.sequence in rows
    ]
    with transaction.atomic():
        leases.check()
        return len(StartEstimate.objects.bulk_create(new, ignore_conflicts=True))


def _written() -> QuerySet[StartEstimate]:
    """The estimates of this stay in the queue."""
    return StartEstimate.objects.filter(
        workload=OuterRef("pk"), queued_at=OuterRef("queued_at"), started_at__isnull=True
    )


def _score_those_who_left(now: datetime) -> None:
    """Score stays that ended without a start: a miss if the p90 had passed, else the estimate is deleted."""
    stays = Workload.objects.filter(pk=OuterRef("workload"), queued_at=OuterRef("queued_at"))
    waits = stays.filter(phase=Phase.QUEUED.value)
    left = StartEstimate.objects.filter(~Exists(waits), started_at__isnull=True, hit__isnull=True)
    with transaction.atomic():
        leases.check()
        left.filter(p90__lte=now).update(hit=False)
        left.exclude(p90__lte=now).delete()


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
    return f"forecast/2:{flavor_id}:{capacity_type}"


def _keep(
    key: str, snapshot: PoolSnapshot, cycle_plan: CyclePlan, guesses: Mapping[str, Estimate], now: datetime
) -> None:
    places = positions(snapshot, cycle_plan=cycle_plan)
    waiters = {waiter.id: waiter for waiter in snapshot.waiters}
    starts = {
        name: (_stay(waiters[name], places[name]), guess.p50, guess.p90)
        for name, guess in guesses.items()
        if guess.basis == RUN_FORWARD
    }
    kept = {"facts": _facts(snapshot), "at": int(now.timestamp()), "starts": starts}
    try:
        cache.set(key, kept, KEPT_SECONDS)
    except (redis.RedisError, OSError):
        log.warning("forecast.not_kept", exc_info=True)


def _kept(workload: Workload, snapshot: PoolSnapshot, cycle_plan: CyclePlan) -> Estimate | None:
    """The cached estimate; None if any of its inputs except the time has changed, or if the cache is unavailable."""
    if workload.flavor_id is None:
        return None
    try:
        kept = cache.get(_key(workload.flavor_id, workload.capacity_type))
    except (redis.RedisError, OSError):
        log.warning("forecast.not_read", exc_info=True)
        return None
    name = str(workload.public_id)
    forecast = _read_forecast(kept, name, snapshot)
    if forecast is None:
        return None
    stay, at, start = forecast
    waiter = next(candidate for candidate in snapshot.waiters if candidate.id == name)
    if stay != [*_stay(waiter, position(snapshot, name, cycle_plan=cycle_plan))]:
        return None
    # The workload has not started yet: an estimate in the past means now at the earliest.
    p50, p90 = (max(seconds, snapshot.now) for seconds in start)
    return Estimate(p50, p90, f"{RUN_FORWARD}, at {datetime.fromtimestamp(at, tz=UTC):%H:%M:%S} UTC")


def _read_forecast(kept: Any, name: str, snapshot: PoolSnapshot) -> tuple[list[Any], int, list[int]] | None:
    """The stay, time and start of `name` in the cached forecast; None unless it has the expected shape.

    Anyone with access to the cache can write there: its content is validated as data and never executed.
    """
    match kept:
        case {"facts": str(facts), "at": int(at), "starts": {**starts}}:
            row = starts.get(name)
        case _:
            return None
    match row:
        case [list(stay), int(p50), int(p90)]:
            seconds = (at, p50, p90)
        case _:
            return None
    sane = all(0 <= second <= snapshot.now + FURTHEST_SECONDS for second in seconds)
    return (stay, at, [p50, p90]) if sane and facts == _facts(snapshot) else None


def _facts(snapshot: PoolSnapshot) -> str:
    """A hash of the pool's capacity, usage and limits; it does not change with time alone."""
    teams = [
        (
            *(team.slug, team.weight, team.stopped, team.user_limit, team.max_time_limit_seconds),
            *(team.lendable, team.ceilings, team.held, team.budget),
        )
        for team in snapshot.teams
    ]
    text = repr((snapshot.revision, snapshot.accounts, snapshot.blocks, snapshot.provisionable, teams))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _stay(waiter: Waiter, place: int) -> tuple[int | None, ...]:
    return place, waiter.queued_at, waiter.priority, waiter.units, waiter.seconds


def rested(
    workload: Workload | None, verdict: Verdict, start: Estimate, now: datetime
) -> tuple[Verdict, Estimate]:
    """The verdict and estimate with the workload's back-off applied: no pass admits it before that ends."""
    ends = None if workload is None else workload.rests_until
    if workload is None or ends is None or ends <= now or verdict.outcome is Outcome.NEVER:
        return verdict, start
    until = int(ends.timestamp())
    rests = Verdict(Outcome.WAIT, Reason.BACKOFF_WAITING, workload.message, rule="rest")
    later = [None if seconds is None else max(seconds, until) for seconds in (start.p50, start.p90)]
    basis = RESTS if later == [until, until] else start.basis
    return rests, Estimate(later[0], later[1], basis, start.unknown_because)
