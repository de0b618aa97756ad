"""From a submission to its Job in the API server, beside a bare POST of the same Job."""

from __future__ import annotations

import copy
import json
import threading
import time
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks import statements
from benchmarks.results import Result, Rounds
from tests.crash.fleet import Fleet, RestClient
from tests.crash.raw_cluster import RawCluster

GATE, GOAL = 8.0, 4.0
SAMPLES = 12
WARM_UP = 5
DEADLINE_SECONDS = 30.0
QUIET_SECONDS = 0.15
# What the API server and its controllers add, and what makes an object the portal's.
_NOT_SENT = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")
_OWNED_PREFIXES = ("batch.kubernetes.io/", "controller-uid", "job-name", "app.kubernetes.io/managed-by")


class Arrivals:
    """When an independent watch first saw each Job, by name."""

    def __init__(self) -> None:
        self._moments: dict[str, float] = {}
        self._objects: dict[str, dict[str, Any]] = {}
        self._news = threading.Condition()

    def take(self, moment: float, kind: str, item: dict[str, Any]) -> None:
        if kind != "ADDED":
            return
        with self._news:
            self._moments.setdefault(item["metadata"]["name"], moment)
            self._objects[item["metadata"]["name"]] = item
            self._news.notify_all()

    def of(self, prefix: str) -> tuple[float, dict[str, Any]]:
        """The Job whose name begins so; waits for it."""
        with self._news:
            arrived = self._news.wait_for(lambda: self._name(prefix) is not None, DEADLINE_SECONDS)
            name = self._name(prefix)
            if not arrived or name is None:
                raise SystemExit(f"no Job {prefix}… appeared within {DEADLINE_SECONDS:.0f} s")
            return self._moments[name], self._objects[name]

    def _name(self, prefix: str) -> str | None:
        return next((name for name in self._moments if name.startswith(prefix)), None)


def measure(fleet: Fleet, *, rounds: int) -> Result:
    cluster, client, arrivals, samples = RawCluster(fleet.kubeconfig), RestClient(fleet), Arrivals(), Rounds()
    watch = cluster.watch("/apis/batch/v1/jobs", on_event=arrivals.take)
    try:
        with fleet.database() as database:
            job = _warm_up(fleet, client, arrivals, database)
            for _ in range(rounds):
                ours, limit = [], []
                for _ in range(SAMPLES):
                    limit.append(_raw(cluster, arrivals, job))
                    _until_quiet(database)
                    ours.append(_ours(fleet, client, arrivals)[0])
                    _until_quiet(database)
                samples.ours.append(ours)
                samples.limit.append(limit)
            counted = statements.count(fleet, database, lambda: _ours(fleet, client, arrivals, mark=database))
            _until_quiet(database)
    finally:
        watch.stop()
        cluster.close()
        client.close()
    return Result(
        title="From a submission to its object",
        question="How long after a client begins to send `POST /api/v1/training-runs/` is the Job in the API server?",
        method=f"{rounds} rounds of {SAMPLES} pairs, one at a time and in turn: the portal's web and worker processes, asked on a kept connection, make a Job "
        "of one CPU pod; a bare client on a kept connection POSTs the same Job. One watch of its own, begun before, stops "
        "both clocks at ADDED. The portal's time holds authentication, validation, the committed request, the wake-up "
        "through the broker, admission, and the committed attempt, each with its `fsync`.",
        limits="One request at a time on a portal that is otherwise idle. Both Jobs are made suspended; the portal then lets its own go, and "
        "the next sample waits until that has ended. Client, portal, databases and cluster share the machine.",
        rows=[samples.row("submit → Job in the API server, p50", gate=GATE, goal=GOAL)],
        notes=[
            (
                f"Before the Job is made: {counted.web} SQL statements of web, {counted.worker} of the worker, and {counted.frames} that only begin "
                "or end a transaction; counted once, in PostgreSQL's log, on an idle portal."
            )
        ],
    )


def _warm_up(
    fleet: Fleet, client: RestClient, arrivals: Arrivals, database: psycopg.Connection
) -> dict[str, Any]:
    """Namespace, connections and caches are there afterwards; returns what the limit is to POST."""
    job: dict[str, Any] = {}
    for _ in range(WARM_UP):
        _, job = _ours(fleet, client, arrivals)
        _until_quiet(database)
    return _bare(job)


def _ours(
    fleet: Fleet, client: RestClient, arrivals: Arrivals, *, mark: psycopg.Connection | None = None
) -> tuple[float, dict[str, Any]]:
    name = f"ours-{uuid4().hex[:8]}"
    body = {
        "team": fleet.team,
        "name": name,
        "kind": "job",
        "image": "example.org/train:1",
        "command": ["python", "train.py"],
        "cpu": "100m",
        "memory": "64Mi",
        "env": [{"name": "BED_RUN_SECONDS", "value": "0"}],
        "time_limit_seconds": 3600,
    }
    payload = json.dumps(body).encode()
    # The server ends a connection that rests for some seconds; the limit's connection is kept, too.
    client.insist("GET", "me/")
    if mark is not None:
        mark.execute(statements.MARK)
    begun = time.perf_counter()
    status, _, text = client.once("POST", "training-runs/", payload)
    if status != 201:
        raise SystemExit(f"the submission was answered {status}: {text!r}")
    moment, job = arrivals.of(name)
    return (moment - begun) * 1000, job


def _raw(cluster: RawCluster, arrivals: Arrivals, job: dict[str, Any]) -> float:
    body = copy.deepcopy(job)
    body["metadata"]["name"] = name = f"bare-{uuid4().hex[:8]}"
    path = f"/apis/batch/v1/namespaces/{job['metadata']['namespace']}/jobs"
    begun = time.perf_counter()
    status, answer = cluster.ask("POST", path, body)
    if status != 201:
        raise SystemExit(f"the bare POST was answered {status}: {answer}")
    return (arrivals.of(name)[0] - begun) * 1000


def _bare(job: dict[str, Any]) -> dict[str, Any]:
    """The Job as it was sent, without the label by which the portal would take it for its own."""
    bare = {"apiVersion": "batch/v1", "kind": "Job", **copy.deepcopy(job)}
    bare.pop("status", None)
    bare["spec"].pop("selector", None)
    for metadata in (bare["metadata"], bare["spec"]["template"]["metadata"]):
        for name in _NOT_SENT:
            metadata.pop(name, None)
        for labels in (metadata.get("labels", {}), metadata.get("annotations", {})):
            for name in [name for name in labels if name.startswith(_OWNED_PREFIXES)]:
                del labels[name]
    return bare


def _until_quiet(database: psycopg.Connection) -> None:
    """Wait until no run is under way and its last events have come."""
    query = "SELECT count(*) FROM workloads_workload WHERE finished_at IS NULL"
    deadline = time.monotonic() + DEADLINE_SECONDS
    while database.execute(query).fetchone() != (0,):
        if time.monotonic() > deadline:
            raise SystemExit("a run of the benchmark does not end")
        time.sleep(0.05)
    time.sleep(QUIET_SECONDS)
