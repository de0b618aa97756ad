"""What it costs to answer about a workload in a queue of ten thousand."""
# ruff: noqa: RUF001 (ranges are for people)

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.results import Result, Row
from benchmarks.worlds import rows
from controller import waiting_card as waiting
from controller.admission import scheduler
from foundation import clock
from policy import judge
from quotas import snapshots
from quotas.services import Wanted, activate, claim_many
from quotas.waiters import new_waiter
from teams.models import Team, User
from workloads.models import Attempt, ResourceFlavor, Workload
from workloads.services import create_workload
from workloads.states import Phase, Priority, Reason

WAITING = 10_000
TEAMS = 30
NODE = 8
NOMINAL = 8
SAMPLES = 3
LANDMARK_MS = 50
SIZES = (1, 2, 4, 8)
PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.NORMAL, Priority.LOW)


@dataclass
class Hall:
    """A pool whose quotas are all in use, and a long queue before it."""

    words: str
    team: Team
    owner: User
    flavor: ResourceFlavor
    middle: Workload
    last: Workload
    waiting: int


@dataclass
class Cost:
    cpu: list[float]
    wall: list[float]
    queries: int


def measure(*, rounds: int, count: int = WAITING) -> Result:
    halls = [
        _hall("shared", teams=TEAMS, cohorts=TEAMS // 6, count=count, words=f"{TEAMS} teams"),
        _hall("alone", teams=1, cohorts=0, count=count, words="one team"),
    ]
    rows.vacuum()
    asked = {(hall.words, name): call for hall in halls for name, call in _calls(hall).items()}
    costs = {key: Cost([], [], _queries(call)) for key, call in asked.items()}
    for _ in range(rounds):
        for key, call in asked.items():
            for _ in range(SAMPLES):
                _one(call, costs[key])
    return Result(
        title="A card in a long queue",
        question=f"What does it cost to say where one stands, why, and until when, while {count:,} wait in the pool?",
        method=f"{rounds} rounds of {SAMPLES} calls of each row, in turn, on a kept connection: CPU time of the portal's own process, and the clock. "
        f"Every team holds its quota of {NOMINAL}, four runs each; those who wait ask for 1 to 8, a quarter of them with high, a quarter with low priority. "
        "The waiting card is of the one in the middle of its team's normal line. Queries are counted apart.",
        limits="Without rendering the page. What PostgreSQL spends is in the wall time alone.",
        rows=[_row(words, name, cost) for (words, name), cost in costs.items()],
        notes=[_said(hall) for hall in halls],
    )


def _hall(prefix: str, *, teams: int, cohorts: int, count: int, words: str) -> Hall:
    members, owner = rows.make_teams(prefix, count=teams, cohorts=cohorts), rows.make_owner()
    flavor = rows.make_flavor(f"{prefix}-card")
    rows.make_nodes(flavor, count=max(2, teams * NOMINAL // NODE), units=NODE)
    quotas = {team.pk: rows.make_quota(team, flavor, nominal=NOMINAL) for team in members}
    running = [
        rows.queued(team, owner, flavor, units=units, at=rows.ago(hours=1, minutes=number))
        for team in members
        for number, units in enumerate((4, 2, 1, 1))
    ]
    rows.save(running)
    now = clock.now()
    claim_many(
        wanted=[Wanted(workload.pk, quotas[workload.team_id].pk, workload.units) for workload in running],
        now=now,
    )
    for workload in running:
        _start(workload, now)
    line = [
        rows.queued(
            members[number % teams],
            owner,
            flavor,
            units=SIZES[number // teams % len(SIZES)],
            priority=PRIORITIES[number // teams // len(SIZES) % len(PRIORITIES)].value,
            at=rows.ago(seconds=count - number),
        )
        for number in range(count)
    ]
    rows.save(line)
    normal = [
        workload
        for workload in line
        if workload.team_id == members[0].pk and workload.priority == Priority.NORMAL.value
    ]
    low = [
        workload
        for workload in line
        if workload.team_id == members[0].pk and workload.priority == Priority.LOW.value
    ]
    return Hall(words, members[0], owner, flavor, normal[len(normal) // 2], low[-1], count)


def _start(workload: Workload, now: datetime) -> None:
    started = rows.ago(minutes=50)
    Attempt.objects.create(
        workload=workload, number=1, object_name=workload.name, created_at=started, started_at=started
    )
    Workload.objects.filter(pk=workload.pk).update(
        phase=Phase.RUNNING.value, reason=Reason.PROGRESSING.value, attempt_number=1, started_at=started
    )
    activate(workload=workload, now=now)


def _calls(hall: Hall) -> dict[str, Callable[[], object]]:
    def preview(*, levers: bool) -> Callable[[], object]:
        return lambda: waiting.card_for(_asked(hall), named=frozenset(), now=clock.now(), with_levers=levers)

    def card(*, levers: bool) -> Callable[[], object]:
        return lambda: waiting.card_of(hall.middle, named=frozenset(), now=clock.now(), with_levers=levers)

    return {
        "preview, without levers": preview(levers=False),
        "preview, with levers": preview(levers=True),
        "waiting card, without levers": card(levers=False),
        "waiting card, with levers": card(levers=True),
        "place of the last in its team's line": lambda: _place(hall.last, clock.now()),
        "`admit()` of somebody who has just come": lambda: _admit(hall),
    }


def _asked(hall: Hall) -> waiting.CardRequest:
    now = clock.now()
    waiter = new_waiter(
        team=hall.team.slug,
        owner_id=hall.owner.pk,
        noun="run",
        units=2,
        units_each=2,
        pods=1,
        priority=Priority.NORMAL,
        seconds=3600,
        preemptible=False,
        now=now,
    )
    return waiting.CardRequest(
        kind="training-run",
        team=hall.team,
        flavor=hall.flavor,
        capacity_type=rows.ON_DEMAND,
        waiter=waiter,
        time_limit_seconds=3600,
    )


def _admit(hall: Hall) -> Timed:
    """A run that is submitted, looked at and stays; it comes and goes outside the clock."""
    made = rows.queued(hall.team, hall.owner, hall.flavor, units=2, reason=Reason.PENDING_EVALUATION.value)
    run = create_workload(
        kind=made.kind,
        team=hall.team,
        owner=hall.owner,
        name=made.name,
        priority=Priority.NORMAL,
        flavor=hall.flavor,
        capacity_type=rows.ON_DEMAND,
        units=2,
        units_each=2,
        pod_count=1,
        preemptible=False,
        time_limit_seconds=3600,
        max_retries=0,
        labels={},
        actor="benchmarks",
        simulated=False,
        now=clock.now(),
    )
    counted = len(connection.queries_log)
    begun = time.process_time(), time.perf_counter()
    verdict = scheduler.admit(run, now=clock.now())
    ended = time.process_time(), time.perf_counter()
    queries = len(connection.queries_log) - counted
    if verdict is None or verdict.admitted:
        raise SystemExit(f"the pool is not full: {verdict}")
    Workload.objects.filter(pk=run.pk).delete()
    return Timed(ended[0] - begun[0], ended[1] - begun[1], queries)


@dataclass(frozen=True)
class Timed:
    """Figures of a call that was a part of the work; `queries` while they are captured."""

    cpu: float
    wall: float
    queries: int = 0


def _one(call: Callable[[], object], cost: Cost) -> None:
    begun = time.process_time(), time.perf_counter()
    answer = call()
    spent = Timed(time.process_time() - begun[0], time.perf_counter() - begun[1])
    if isinstance(answer, Timed):
        spent = answer
    cost.cpu.append(spent.cpu * 1000)
    cost.wall.append(spent.wall * 1000)


def _queries(call: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as seen:
        answer = call()
    return answer.queries if isinstance(answer, Timed) else len(seen)


def _row(words: str, name: str, cost: Cost) -> Row:
    cpu = statistics.median(cost.cpu)
    return Row(
        name=f"{words}: {name}",
        ours=f"{cpu:.0f} ms CPU ({min(cost.cpu):.0f}–{max(cost.cpu):.0f}), {statistics.median(cost.wall):.0f} ms wall, {cost.queries} queries",
        gate=f"landmark {LANDMARK_MS} ms: {'within' if cpu <= LANDMARK_MS else 'not within'}",
    )


def _place(workload: Workload, now: datetime) -> int:
    assert workload.flavor is not None
    snapshot = snapshots.pool_snapshot_of(
        flavor=workload.flavor, capacity_type=workload.capacity_type, now=now, focus=workload
    )
    return judge.position(snapshot, str(workload.public_id))


def _said(hall: Hall) -> str:
    now = clock.now()
    card = waiting.card_of(hall.middle, named=frozenset(), now=now, with_levers=True)
    last = _place(hall.last, now)
    unknown = card.estimate.unknown_because
    start = unknown or f"p90 in {(card.estimate.p90 or 0) - now.timestamp():,.0f} s"
    return (
        f"{hall.words}: the one in the middle is told place {card.position:,}, start {start}, "
        f"{len(card.offers)} levers; the last of its team stands at {last:,}."
    )
