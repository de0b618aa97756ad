"""Says after a test whether anything was lost, doubled or billed wrongly, from the database and from a raw watch."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from cluster.labels import ATTEMPT, WORKLOAD_ID
from tests.crash.fleet import Fleet
from tests.crash.load import Shape
from tests.waiting import until, until_equal

FINAL = ("Succeeded", "Failed", "Cancelled")
MICRO_USD_PER_UNIT_SECOND = 1_000_000
Key = tuple[str, int]


@dataclass
class Seen:
    """What the API server told an independent watch, begun before the first run."""

    jobs: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    pods: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)

    def take(self, _moment: float, _type: str, found: dict[str, Any]) -> None:
        metadata = found["metadata"]
        labels = metadata.get("labels") or {}
        if WORKLOAD_ID not in labels or ATTEMPT not in labels:
            self.strangers.append(f"{found['kind']} {metadata['name']}")
            return
        places = self.jobs if found["kind"] == "Job" else self.pods
        places[labels[WORKLOAD_ID], int(labels[ATTEMPT])].add(metadata["uid"])
        if found["kind"] == "Pod":
            self.last[metadata["uid"]] = found


@dataclass
class CounterSampler:
    """Compares, all the time, the counter of each quota with its open claims and its ceiling, in one snapshot."""

    fleet: Fleet
    samples: int = 0
    problems: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(30)

    def _run(self) -> None:
        with self.fleet.database() as database:
            while not self._stopping.wait(0.1):
                self.samples += 1
                self.problems += counters(database)


_COUNTERS = """
SELECT quota.nominal, quota.used,
       coalesce((SELECT sum(units) FROM quotas_claim WHERE quota_id = quota.id AND state <> 'released'), 0)
FROM quotas_quota AS quota
"""


def counters(database: psycopg.Connection) -> list[str]:
    """Each quota whose counter is not the sum of its open claims, or is above its ceiling."""
    return [
        f"quota of {nominal}: used {used}, open claims {claimed}"
        for nominal, used, claimed in database.execute(_COUNTERS).fetchall()
        if used != claimed or used > nominal
    ]


def unfinished(database: psycopg.Connection) -> list[tuple[Any, ...]]:
    """Runs that have not reached a final state, with what they say of themselves."""
    query = "SELECT name, phase, reason, message, next_reconcile_at, lock_expires_at FROM workloads_workload WHERE NOT phase = ANY(%s)"
    return database.execute(query, [list(FINAL)]).fetchall()


def settle(fleet: Fleet, seconds: float) -> float:
    """Wait until every run has ended; returns the seconds that took."""
    begun = time.monotonic()
    with fleet.database() as database:
        until(
            lambda: not unfinished(database),
            seconds,
            lambda: f"not ended: {unfinished(database)[:5]}",
            longest=0.2,
        )
    return time.monotonic() - begun


def until_billed(fleet: Fleet, seconds: float = 30) -> None:
    """The watcher may still be reading what happened while it was dead."""
    query = "SELECT count(*) FROM costs_usageinterval WHERE ended_at IS NULL OR settled_until <> ended_at"
    with fleet.database() as database:
        until_equal(lambda: database.execute(query).fetchone(), (0,), seconds)


def findings(database: psycopg.Connection, accepted: dict[str, Shape], seen: Seen) -> list[str]:
    """Everything that is wrong, in sentences; empty when nothing is."""
    return [
        *_lost(database, accepted),
        *_objects(database, accepted, seen),
        *_states(database),
        *counters(database),
        *_quota_free(database),
        *_bills(database, seen),
    ]


def _lost(database: psycopg.Connection, accepted: dict[str, Shape]) -> list[str]:
    query = "SELECT public_id::text, name, phase, reason, message, attempt_number FROM workloads_workload"
    rows = {row[0]: row for row in database.execute(query).fetchall()}
    found = [
        f"accepted and unknown now: {run} ({accepted[run].name})" for run in accepted.keys() - rows.keys()
    ]
    # A request whose client never got an answer may stand; then nobody was promised anything.
    found += [f"not asked for: {rows[run][1]}" for run in rows.keys() - accepted.keys()]
    for run, shape in accepted.items():
        if run not in rows:
            continue
        _, name, phase, reason, message, attempts = rows[run]
        wanted = attempts <= 1 if shape.cancel else attempts == shape.attempts
        if phase != shape.phase or not wanted:
            found.append(
                f"{name}: {phase} after {attempts} attempts ({reason}: {message}), not {shape.phase}"
            )
    return found


def _objects(database: psycopg.Connection, accepted: dict[str, Shape], seen: Seen) -> list[str]:
    found = [f"made without the portal's labels: {name}" for name in seen.strangers]
    query = """
        SELECT workload.public_id::text, attempt.number, attempt.object_uid FROM workloads_attempt AS attempt
        JOIN workloads_workload AS workload ON workload.id = attempt.workload_id
    """
    attempts = {(run, number): uid for run, number, uid in database.execute(query).fetchall()}
    for key in attempts.keys() | seen.jobs.keys() | seen.pods.keys():
        jobs, pods = seen.jobs.get(key, set()), seen.pods.get(key, set())
        shape = accepted.get(key[0])
        enough = len(jobs) <= 1 if shape is not None and shape.cancel else len(jobs) == 1
        if not enough or len(pods) > 1 or key not in attempts:
            found.append(f"attempt {key}: {len(jobs)} Jobs, {len(pods)} Pods, row: {key in attempts}")
        elif jobs and attempts[key] and attempts[key] not in jobs:
            found.append(f"attempt {key}: the row names the Job {attempts[key]}, the API server {jobs}")
    return found


def _states(database: psycopg.Connection) -> list[str]:
    moved = """
        SELECT workload.name, event.from_phase, event.to_phase FROM workloads_workloadevent AS event
        JOIN workloads_workload AS workload ON workload.id = event.workload_id
        WHERE event.from_phase = ANY(%s)
    """
    found = [f"a final state changed: {row}" for row in database.execute(moved, [list(FINAL)]).fetchall()]
    ends = """
        SELECT workload.name, count(event.id) FROM workloads_workload AS workload
        LEFT JOIN workloads_workloadevent AS event
          ON event.workload_id = workload.id AND event.to_phase = ANY(%s)
        GROUP BY workload.id HAVING count(event.id) <> 1
    """
    found += [f"not exactly one end: {row}" for row in database.execute(ends, [list(FINAL)]).fetchall()]
    still = "SELECT object_name FROM workloads_attempt WHERE ended_at IS NULL"
    found += [f"an attempt is still open: {name}" for (name,) in database.execute(still).fetchall()]
    return found


def _quota_free(database: psycopg.Connection) -> list[str]:
    rows = database.execute("SELECT used FROM quotas_quota WHERE used <> 0").fetchall()
    return [f"quota still used: {used}" for (used,) in rows]


def _bills(database: psycopg.Connection, seen: Seen) -> list[str]:
    """Each pod that held GPUs is billed for its own seconds, once; both sides of the ledger add up to nothing."""
    found = []
    total = database.execute("SELECT coalesce(sum(amount_micro_usd), 0) FROM costs_ledgerentry").fetchone()
    if total is None or total[0] != 0:
        found.append(f"the ledger's sides differ by {total}")
    query = """
        SELECT pod_uid, min(started_at), max(ended_at), sum(amount_micro_usd),
               sum(extract(epoch FROM ended_at - started_at))::bigint
        FROM costs_ledgerentry WHERE account LIKE 'team:%' GROUP BY pod_uid
    """
    bills = {row[0]: row[1:] for row in database.execute(query).fetchall()}
    found += [f"billed for a pod that never was: {uid}" for uid in bills.keys() - seen.last.keys()]
    gone = dict(database.execute("SELECT uid, gone_at FROM workloads_podrecord").fetchall())
    for uid, pod in seen.last.items():
        found += _bill_of(pod, bills.get(uid), gone.get(uid))
    return found


def _bill_of(pod: dict[str, Any], bill: tuple[Any, ...] | None, gone: datetime | None) -> list[str]:
    name, units = pod["metadata"]["name"], _units(pod)
    start, end = _times(pod)
    if units == 0 or start is None:
        return [f"{name}: billed without GPUs: {bill}"] if bill else []
    if end is None:
        return [f"{name}: has not ended"]
    seconds = int((end - start).total_seconds())
    if bill is None:
        return [f"{name}: not billed for {seconds} s"] if seconds else []
    began, ended, amount, covered = bill
    contiguous = covered == int((ended - began).total_seconds())
    if not contiguous or amount != covered * units * MICRO_USD_PER_UNIT_SECOND:
        return [f"{name}: its lines overlap or leave gaps: {bill}"]
    if "deletionTimestamp" in pod["metadata"]:
        # Of a pod that was deleted while nobody looked, the portal knows only when it was first found gone.
        latest = max(end, gone or end)
        right = end - timedelta(seconds=_grace(pod)) <= ended <= latest
    else:
        right = covered == seconds
    right = right and began == start
    return [] if right else [f"{name}: billed {covered} s, was there {seconds} s ({start} to {end}): {bill}"]


def _units(pod: dict[str, Any]) -> int:
    containers = pod["spec"]["containers"]
    return sum(
        int(each.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)) for each in containers
    )


def _times(pod: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
    status = pod.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    scheduled = conditions.get("PodScheduled", {})
    start = scheduled.get("lastTransitionTime") if scheduled.get("status") == "True" else None
    ends = [
        each["state"]["terminated"]["finishedAt"]
        for each in status.get("containerStatuses") or []
        if each.get("state", {}).get("terminated")
    ]
    end = max(ends) if ends and status.get("phase") in {"Succeeded", "Failed"} else None
    if end is None:
        end = pod["metadata"].get("deletionTimestamp")
    return (
        datetime.fromisoformat(start) if start else None,
        datetime.fromisoformat(end) if end else None,
    )


def _grace(pod: dict[str, Any]) -> int:
    return int(pod["metadata"].get("deletionGracePeriodSeconds") or 0) + 1
