"""A day of submissions in processes: one submits, one admits, one is the cluster's clock, two end what has run."""

from __future__ import annotations

import heapq
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from multiprocessing.queues import Queue
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction

from benchmarks import fifo
from benchmarks.worlds import rows
from benchmarks.worlds.kueue_load import COHORTS, NOMINAL, QUEUES, Arrival
from controller.admission import scheduler
from foundation import clock
from quotas import services, snapshots
from quotas.models import Pool
from teams.models import Team, User
from workloads.models import ResourceFlavor, Workload
from workloads.services import NOTIFY_CHANNEL, transition
from workloads.states import Phase, Reason

ENDERS = 2
IDLE_SECONDS = 0.005
SUBMIT_SECONDS = 0.02
LEAD_SECONDS = 1.0
PATIENCE_SECONDS = 900.0


class Engine(StrEnum):
    ADMISSION = "admission"
    FIFO = "first come, first served"


@dataclass(frozen=True)
class Day:
    teams: Sequence[Team]
    owner: User
    flavor: ResourceFlavor
    arrivals: Sequence[Arrival]


@dataclass
class Trace:
    """What was seen of one day; times in seconds."""

    wall: float
    usage: list[float]
    """Share of each cohort's quota that was claimed, over the whole day."""
    work: float
    waits: dict[str, float]
    passes: int
    pass_ms: float
    pass_ms_max: float
    late: float
    errors: int


@dataclass
class _Log:
    submitted: dict[UUID, float] = field(default_factory=dict)
    admitted: dict[UUID, float] = field(default_factory=dict)
    released: dict[UUID, float] = field(default_factory=dict)
    passes: list[float] = field(default_factory=list)
    errors: int = 0


def run(day: Day, engine: Engine) -> Trace:
    """One day from the first submission to the last release."""
    known = {uuid4(): arrival for arrival in day.arrivals}
    pool = Pool.objects.select_related("flavor").get(
        pk=snapshots.pool_for(flavor=day.flavor, capacity_type=rows.ON_DEMAND).pk
    )
    context = multiprocessing.get_context("fork")
    events, ended, stop = context.Queue(), context.Queue(), context.Event()
    connection.close()
    begin = time.monotonic() + LEAD_SECONDS
    jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (_submit, (day, known, begin, events)),
        (_admit, (engine, pool, stop, events)),
        (_run_for_real, (known, events, ended)),
        *((_end, (ended, events)) for _ in range(ENDERS)),
    ]
    processes = [context.Process(target=target, args=args, daemon=True) for target, args in jobs]
    for process in reversed(processes):
        process.start()
    try:
        log = _collect(events, len(known))
    finally:
        stop.set()
        for process in processes:
            process.terminate()
            process.join(10)
    return _trace(known, log, begin)


def _collect(events: Queue[tuple[str, Any, float]], expected: int) -> _Log:
    log = _Log()
    while len(log.released) < expected:
        what, which, at = events.get(timeout=PATIENCE_SECONDS)
        if what == "submitted":
            log.submitted |= dict.fromkeys(which, at)
        elif what == "admitted":
            log.admitted[which] = at
        elif what == "released":
            log.released[which] = at
        elif what == "pass":
            log.passes.append(at)
        else:
            log.errors += 1
            print(which, flush=True)
    return log


def _trace(known: dict[UUID, Arrival], log: _Log, begin: float) -> Trace:
    wall = max(log.released.values()) - begin
    held = [0.0] * COHORTS
    waits: dict[str, list[float]] = {}
    for identity, arrival in known.items():
        held[arrival.queue // QUEUES] += arrival.kind.units * (
            log.released[identity] - log.admitted[identity]
        )
        waits.setdefault(arrival.kind.name, []).append(log.admitted[identity] - log.submitted[identity])
    quota = QUEUES * NOMINAL * wall
    work = sum(arrival.kind.units * arrival.kind.seconds for arrival in known.values())
    return Trace(
        wall=wall,
        usage=[used / quota for used in held],
        work=work / (quota * COHORTS),
        waits={name: statistics.mean(seconds) for name, seconds in waits.items()},
        passes=len(log.passes),
        pass_ms=statistics.median(log.passes) * 1000,
        pass_ms_max=max(log.passes) * 1000,
        late=max(log.submitted[identity] - begin - arrival.at for identity, arrival in known.items()),
        errors=log.errors,
    )


# -- the processes ------------------------------------------------------------------------------------------------------


def _submit(
    day: Day, known: dict[UUID, Arrival], begin: float, events: Queue[tuple[str, Any, float]]
) -> None:
    """Write rows when they are due, together what is due together, and make the pool due for them."""
    line = iter(known.items())
    due = next(line, None)
    while due is not None:
        time.sleep(max(0.0, begin + due[1].at - time.monotonic()))
        batch: list[Workload] = []
        while due is not None and begin + due[1].at <= time.monotonic() + SUBMIT_SECONDS:
            batch.append(_row(day, *due))
            due = next(line, None)
        now = clock.now()
        with transaction.atomic():
            rows.save(batch)
            services.mark_due(flavor_id=day.flavor.pk, capacity_type=rows.ON_DEMAND, now=now)
        events.put(("submitted", [workload.public_id for workload in batch], time.monotonic()))


def _row(day: Day, identity: UUID, arrival: Arrival) -> Workload:
    kind = arrival.kind
    return rows.queued(
        day.teams[arrival.queue],
        day.owner,
        day.flavor,
        public_id=identity,
        name=identity.hex,
        units=kind.units,
        units_each=1,
        pod_count=kind.units,
        priority=kind.priority.value,
        reason=Reason.PENDING_EVALUATION.value,
        time_limit_seconds=max(1, round(kind.seconds)),
    )


def _admit(engine: Engine, pool: Pool, stop: Any, events: Queue[tuple[str, Any, float]]) -> None:
    """What a worker does with a pool: passes over it whenever it is due."""
    pass_over = scheduler.pass_over if engine is Engine.ADMISSION else fifo.pass_over
    while not stop.is_set():
        begun = time.monotonic()
        try:
            admitted = pass_over(pool, now=clock.now())
        except Exception as error:  # noqa: BLE001 (counted and shown; the pool stays due)
            events.put(("error", f"pass: {error!r}", 0.0))
            services.mark_due(flavor_id=pool.flavor_id, capacity_type=pool.capacity_type, now=clock.now())
            continue
        if admitted:
            events.put(("pass", None, time.monotonic() - begun))
        else:
            time.sleep(IDLE_SECONDS)


def _run_for_real(
    known: dict[UUID, Arrival],
    events: Queue[tuple[str, Any, float]],
    ended: Queue[UUID],
) -> None:
    """The cluster's part: what is admitted runs for its time."""
    running: list[tuple[float, UUID]] = []
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {NOTIFY_CHANNEL}")
    assert connection.connection is not None
    while True:
        rest = max(0.0, running[0][0] - time.monotonic()) if running else 1.0
        for notice in connection.connection.notifies(timeout=rest, stop_after=1):
            news = json.loads(notice.payload)
            if news["phase"] == Phase.ADMITTED.value:
                identity, at = UUID(news["workload"]), time.monotonic()
                events.put(("admitted", identity, at))
                heapq.heappush(running, (at + known[identity].kind.seconds, identity))
        while running and running[0][0] <= time.monotonic():
            ended.put(heapq.heappop(running)[1])


def _end(ended: Queue[UUID], events: Queue[tuple[str, Any, float]]) -> None:
    """What a reconcile records of a run that has ended."""
    while True:
        identity = ended.get()
        try:
            _record_end(identity, clock.now())
        except Exception as error:  # noqa: BLE001 (counted and shown; it is tried again)
            events.put(("error", f"end: {error!r}", 0.0))
            ended.put(identity)
            continue
        events.put(("released", identity, time.monotonic()))


def _record_end(identity: UUID, now: datetime) -> None:
    with transaction.atomic():
        rows_held = Workload.objects.select_for_update(no_key=True, of=("self",))
        workload = rows_held.select_related("team", "flavor").get(public_id=identity)
        transition(
            workload,
            to=Phase.SUCCEEDED,
            reason=Reason.COMPLETED,
            message="It ended.",
            actor="benchmarks",
            now=now,
        )
        services.release(workload=workload, now=now)
