"""Admissions and claims per second, beside pgbench with a conditional UPDATE of one row, and beside usual rivals."""
# ruff: noqa: RUF001 (times signs and ranges are for people)

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction

from benchmarks.results import Result, Row
from benchmarks.worlds import rows
from benchmarks.worlds.crowd import Crowd, Job, Step, crowd
from controller.admission import scheduler
from foundation import clock
from portal.runtime import postgres
from quotas.models import Claim, ClaimState, Pool, Quota
from quotas.services import NOMINAL_MAX, Wanted, claim, claim_many, mark_due, release
from workloads.models import Workload
from workloads.states import Phase

CLIENTS = 8
SECONDS = 2
BATCH = 50
STOCK = 3_000
"""Workloads of each client: more than it claims for in a turn."""
TEAMS, QUEUE, NODE_UNITS = 8, 400, 8
"""The pool that admission passes over: every run in it has quota and a node, so that passes alone set the pace."""
GOAL, BATCHED_GATE, RIVAL_GOAL = 0.5, 5.0, 1.5
PGBENCH, PAIRS, ADMISSION = "pgbench", "claim + release", "admission"
OURS, BATCHED = "claim()", "claim_many()"
PLAIN, LOCKED, ADVISORY, SERIALIZABLE = "conditional UPDATE", "FOR UPDATE", "advisory lock", "SERIALIZABLE"
RIVALS = (LOCKED, ADVISORY, SERIALIZABLE)
TURNS = (PGBENCH, ADMISSION, OURS, PLAIN, BATCHED, *RIVALS, PAIRS)
_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
_LIMIT_TABLE = """
CREATE TABLE benchmark_row (id int PRIMARY KEY, used int NOT NULL, cap int NOT NULL);
INSERT INTO benchmark_row VALUES (1, 0, 2000000000);
"""
_LIMIT = "UPDATE benchmark_row SET used = used + 1 WHERE id = 1 AND used + 1 <= cap"
_CLAIM = """
INSERT INTO quotas_claim (workload_id, quota_id, team_id, purpose, units, headroom, lent, state, reserved_at, cpu, memory, storage, pods)
VALUES (%s, %s, %s, 'workload', 1, 0, false, 'reserved', %s, 0, 0, 0, 1)
"""
_ADD = "UPDATE quotas_quota SET used = used + 1 WHERE id = %s"
_ROOM = "SELECT used + 1 <= ceiling FROM quotas_quota WHERE id = %s"
_ROOM_LOCKED = "SELECT used + 1 <= ceiling FROM quotas_quota WHERE id = %s FOR UPDATE"


@dataclass
class Tally:
    """Rates of every turn by what was measured, what went wrong, and what the counters said afterwards."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    troubles: dict[str, dict[str, int]] = field(default_factory=dict)
    claimed: int = 0
    wrong: list[str] = field(default_factory=list)

    def median(self, name: str) -> float:
        return statistics.median(self.rates[name])

    def ratio(self, name: str, other: str) -> str:
        ratios = [mine / theirs for mine, theirs in zip(self.rates[name], self.rates[other], strict=True)]
        return f"{self.median(name) / self.median(other):.2f}× ({min(ratios):.2f}–{max(ratios):.2f})"

    def shown(self, name: str) -> str:
        rates = self.rates[name]
        return f"{self.median(name):,.0f}/s ({min(rates):,.0f}–{max(rates):,.0f})"

    def trouble(self, name: str) -> dict[str, int]:
        return self.troubles.get(name, {})


def measure(*, rounds: int) -> Result:
    quota, stocks = _prepare()
    pool = _queue()
    tally = Tally()
    with crowd(CLIENTS, _jobs(quota, stocks)) as clients:
        for _ in range(rounds):
            for name in TURNS:
                _turn(name, clients, quota, pool, tally)
    return _result(tally, rounds)


def _prepare() -> tuple[Quota, list[list[Workload]]]:
    (team,), owner = rows.make_teams("hot", count=1), rows.make_owner()
    flavor = rows.make_flavor("hot-card")
    quota = rows.make_quota(team, flavor, nominal=NOMINAL_MAX)
    made = rows.save([rows.queued(team, owner, flavor) for _ in range(CLIENTS * STOCK)])
    with connection.cursor() as cursor:
        cursor.execute(_LIMIT_TABLE)
    return quota, [made[number::CLIENTS] for number in range(CLIENTS)]


def _queue() -> Pool:
    """Teams that wait in a pool with room for all of them."""
    teams, owner = rows.make_teams("line", count=TEAMS), rows.make_owner()
    flavor = rows.make_flavor("line-card")
    rows.make_nodes(flavor, count=TEAMS * QUEUE // NODE_UNITS, units=NODE_UNITS)
    for team in teams:
        rows.make_quota(team, flavor, nominal=QUEUE)
    rows.save([rows.queued(team, owner, flavor) for _ in range(QUEUE) for team in teams])
    return Pool.objects.get_or_create(flavor=flavor, capacity_type=rows.ON_DEMAND)[0]


def _admitted(pool: Pool, tally: Tally) -> float:
    """Runs admitted per second, by a worker that passes over the pool for as long as it is due."""
    admitted, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < SECONDS:
        mark_due(flavor_id=pool.flavor_id, capacity_type=pool.capacity_type, now=clock.now())
        more = scheduler.pass_over(pool, now=clock.now())
        admitted += more
        if not more:
            raise SystemExit(f"the queue was empty after {took:.2f} s: make QUEUE longer")
    took = time.perf_counter() - began
    held = Claim.objects.filter(quota__flavor=pool.flavor_id).exclude(state=ClaimState.RELEASED).count()
    moved = Workload.objects.filter(flavor=pool.flavor_id, phase=Phase.ADMITTED.value).count()
    tally.claimed += admitted
    if not admitted == held == moved:
        tally.wrong.append(f"{ADMISSION}: {admitted} admitted, {held} claims, {moved} rows")
    return admitted / took


def _turn(name: str, clients: Crowd, quota: Quota, pool: Pool, tally: Tally) -> None:
    if name == PGBENCH:
        tally.rates.setdefault(name, []).append(_pgbench())
    elif name == ADMISSION:
        tally.rates.setdefault(name, []).append(_admitted(pool, tally))
    else:
        score = clients.turn(name, seconds=SECONDS)
        tally.rates.setdefault(name, []).append(score.rate)
        for trouble, count in score.troubles.items():
            counts = tally.troubles.setdefault(name, {})
            counts[trouble] = counts.get(trouble, 0) + count
        if name != PLAIN:
            _check(name, score.done, quota, tally)
    with connection.cursor() as cursor:
        # Every turn begins with the same tables: no claims, and no dead rows.
        cursor.execute("TRUNCATE quotas_claim, quotas_decision, workloads_workloadevent CASCADE")
        cursor.execute("UPDATE quotas_quota SET used = 0")
        cursor.execute(
            "UPDATE workloads_workload SET phase = 'Queued', reason = 'WaitingForQuota' WHERE phase <> 'Queued'"
        )
        cursor.execute(
            "VACUUM ANALYZE quotas_quota, quotas_claim, quotas_pool, workloads_workload, benchmark_row"
        )
        # What the turn before has written goes to the disk now, not in the turn of another.
        cursor.execute("CHECKPOINT")


def _check(name: str, done: int, quota: Quota, tally: Tally) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT used, ceiling, (SELECT coalesce(sum(units), 0) FROM quotas_claim WHERE state <> 'released') "
            "FROM quotas_quota WHERE id = %s",
            [quota.pk],
        )
        used, ceiling, held = cursor.fetchone()
    expected = 0 if name == PAIRS else done
    tally.claimed += done
    if not used == held == expected or used > ceiling:
        tally.wrong.append(f"{name}: used {used}, claims {held}, counted {expected}, ceiling {ceiling}")


def _pgbench() -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(f"{_LIMIT};\n")
        script.flush()
        Path(script.name).chmod(0o644)
        database = settings.DATABASES["default"]
        command = [str(postgres.binaries() / "pgbench"), "--no-vacuum", "--protocol=prepared"]
        command += [f"--client={CLIENTS}", f"--jobs={CLIENTS}", f"--time={SECONDS}", f"--file={script.name}"]
        command += [f"--host={database['HOST']}", f"--username={database['USER']}", database["NAME"]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = _TPS.search(done.stdout)
    if done.returncode != 0 or match is None:
        raise SystemExit(f"pgbench failed:\n{done.stdout}{done.stderr}")
    return float(match[1])


# -- what a client does -------------------------------------------------------------------------------------------------


def _jobs(quota: Quota, stocks: list[list[Workload]]) -> dict[str, Job]:
    def of(step: Callable[[Workload, Quota], None]) -> Job:
        def ready(number: int) -> Step:
            stock = iter(stocks[number])

            def once() -> int:
                workload = next(stock, None)
                if workload is None:
                    return 0
                step(workload, quota)
                return 1

            return once

        return ready

    return {
        OURS: of(_claim),
        PAIRS: of(_claim_and_release),
        PLAIN: of(_plain),
        LOCKED: of(_locked),
        ADVISORY: of(_advisory),
        SERIALIZABLE: lambda number: _serializable(number, quota, stocks),
        BATCHED: lambda number: _batched(number, quota, stocks),
    }


def _claim(workload: Workload, quota: Quota) -> None:
    claim(workload=workload, quota=quota, units=1, now=clock.now())


def _claim_and_release(workload: Workload, quota: Quota) -> None:
    claim(workload=workload, quota=quota, units=1, now=clock.now())
    release(workload=workload, now=clock.now())


def _batched(number: int, quota: Quota, stocks: list[list[Workload]]) -> Step:
    stock: Iterator[Workload] = iter(stocks[number])

    def once() -> int:
        batch = [Wanted(workload.pk, quota.pk, 1) for workload, _ in zip(stock, range(BATCH), strict=False)]
        claim_many(wanted=batch, now=clock.now())
        return len(batch)

    return once


def _plain(_workload: Workload, _quota: Quota) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_LIMIT)


def _locked(workload: Workload, quota: Quota) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_ROOM_LOCKED, [quota.pk])
        _take(cursor, workload, quota)


def _advisory(workload: Workload, quota: Quota) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(1, %s)", [quota.pk])
        cursor.execute(_ROOM, [quota.pk])
        _take(cursor, workload, quota)


def _serializable(number: int, quota: Quota, stocks: list[list[Workload]]) -> Step:
    stock = list(reversed(stocks[number]))

    def once() -> int:
        """A caller that has to begin again raises, is counted, and tries the same workload again."""
        if not stock:
            return 0
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            cursor.execute(_ROOM, [quota.pk])
            _take(cursor, stock[-1], quota)
        stock.pop()
        return 1

    return once


def _take(cursor: object, workload: Workload, quota: Quota) -> None:
    ((room,),) = cursor.fetchall()  # type: ignore[attr-defined]
    if room:
        cursor.execute(_ADD, [quota.pk])  # type: ignore[attr-defined]
        cursor.execute(_CLAIM, [workload.pk, quota.pk, workload.team_id, clock.now()])  # type: ignore[attr-defined]


# -- the report ---------------------------------------------------------------------------------------------------------


def _result(tally: Tally, rounds: int) -> Result:
    return Result(
        title="Admissions and claims",
        question="How many runs per second does admission start, to the committed claim, and how many claims does one quota row take?",
        method=f"{rounds} rounds; in each, in turn and for {SECONDS} s: {', '.join(TURNS)}; {CLIENTS} clients, each with a kept connection to the same "
        f"socket, `fsync=on`, `synchronous_commit=on`. Admission is one worker that passes over a pool of {TEAMS} teams with {QUEUE} queued runs each, as the product does: snapshot, "
        "plan, claims, moves with their events and receipts, in a transaction. pgbench raises one row's counter, `WHERE used + 1 <= cap`, as a prepared statement. The portal's clients and the rivals are "
        "Python processes with the same driver. A claim changes the counter and adds the row of the claim; so do the rivals, as "
        "a row lock (FOR UPDATE), as an advisory lock, and as SERIALIZABLE, which begins anew when it lost; only pgbench and the same statement "
        f"from Python leave that row out. `claim_many()` takes {BATCH} in one call. After every turn the counter is compared with the claims.",
        limits="Clients and PostgreSQL share the machine. A pass claims by `claim_many()`; `claim()` is a claim of its own, as the surge of a rollout takes one. `claim + release` counts pairs: a release is a transaction of several statements, "
        "which also folds the use into the fair share and makes the pool due.",
        rows=_rows(tally),
        notes=_notes(tally, rounds),
    )


def _rows(tally: Tally) -> list[Row]:
    batched = tally.median(BATCHED) / tally.median(OURS)
    return [
        Row(
            name=f"runs admitted by passes, one worker, beside pgbench with {CLIENTS} clients",
            ours=tally.shown(ADMISSION),
            limit=tally.shown(PGBENCH),
            ratio=tally.ratio(ADMISSION, PGBENCH),
            gate=f"goal {GOAL:g}×",
        ),
        Row(
            name=f"`claim()`, {CLIENTS} clients, beside pgbench",
            ours=tally.shown(OURS),
            limit=tally.shown(PGBENCH),
            ratio=tally.ratio(OURS, PGBENCH),
        ),
        Row(
            name=f"`claim_many()` of {BATCH}, claims, beside `claim()`",
            ours=tally.shown(BATCHED),
            limit=tally.shown(OURS),
            ratio=tally.ratio(BATCHED, OURS),
            gate=f"≥ {BATCHED_GATE:g}×",
            passed=batched >= BATCHED_GATE,
        ),
        *(
            Row(
                name=f"`claim_many()` of {BATCH}, claims, beside {name} from Python",
                ours=tally.shown(BATCHED),
                limit=tally.shown(name),
                ratio=tally.ratio(BATCHED, name),
                gate="—" if name == PLAIN else f"goal {RIVAL_GOAL:g}×",
            )
            for name in (PLAIN, *RIVALS)
        ),
        Row(name="`claim()` and `release()`, pairs", ours=tally.shown(PAIRS)),
        Row(
            name="counter = claims ≤ ceiling after every turn; no constraint had to fire",
            ours=f"{tally.claimed:,} claims, {len(tally.wrong)} differences, {_fired(tally)} errors",
            gate="0",
            passed=not tally.wrong and _fired(tally) == 0,
        ),
    ]


def _fired(tally: Tally) -> int:
    return sum(sum(tally.trouble(name).values()) for name in TURNS if name != SERIALIZABLE)


def _notes(tally: Tally, rounds: int) -> list[str]:
    retries = sum(tally.trouble(SERIALIZABLE).values())
    done = statistics.mean(tally.rates[SERIALIZABLE]) * SECONDS * rounds
    notes = [f"SERIALIZABLE began anew {retries:,} times for about {done:,.0f} claims."]
    notes += [
        f"{name}: {count} × {trouble}" for name in TURNS for trouble, count in tally.trouble(name).items()
    ]
    return notes + tally.wrong
