"""From a change of a pod in the API server to its row, beside a bare watch that receives the change."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks.results import Result, Rounds
from tests.crash.fleet import Fleet, RestClient
from tests.crash.raw_cluster import MERGE, RawCluster

GATE, GOAL = 10.0, 4.0
SAMPLES = 20
WARM_UP = 5
DEADLINE_SECONDS = 30.0
QUIET_SECONDS = 0.15
_CHANNEL = "benchmark_rows"
_TRIGGER = f"""
CREATE FUNCTION benchmark_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('{_CHANNEL}', NEW.uid || ' ' || NEW.resource_version); RETURN NULL; END $$;
CREATE TRIGGER benchmark_tell AFTER UPDATE ON workloads_podrecord
FOR EACH ROW EXECUTE FUNCTION benchmark_tell();
"""
_UNDO = "DROP TRIGGER benchmark_tell ON workloads_podrecord; DROP FUNCTION benchmark_tell();"


class Moments:
    """When each version of the pod was first seen."""

    def __init__(self) -> None:
        self._moments: dict[str, float] = {}
        self._news = threading.Condition()

    def put(self, version: str, moment: float) -> None:
        with self._news:
            self._moments.setdefault(version, moment)
            self._news.notify_all()

    def of(self, version: str, what: str) -> float:
        with self._news:
            if not self._news.wait_for(lambda: version in self._moments, DEADLINE_SECONDS):
                raise SystemExit(f"version {version} did not reach {what}")
            return self._moments[version]


def measure(fleet: Fleet, *, rounds: int) -> Result:
    cluster, client = RawCluster(fleet.kubeconfig), RestClient(fleet)
    watched, stored, samples = Moments(), Moments(), Rounds()
    run = start_run(client, fleet)
    with fleet.database() as database:
        pod = _running_pod(database, run)
        path = f"/api/v1/namespaces/{pod['namespace']}/pods"
        watch = cluster.watch(
            path, on_event=lambda moment, _, pod: watched.put(pod["metadata"]["resourceVersion"], moment)
        )
        try:
            with rows_told(fleet, stored):
                for _ in range(WARM_UP):
                    _one(cluster, f"{path}/{pod['name']}", watched, stored)
                for _ in range(rounds):
                    pairs = [_one(cluster, f"{path}/{pod['name']}", watched, stored) for _ in range(SAMPLES)]
                    samples.limit.append([limit for limit, _ in pairs])
                    samples.ours.append([ours for _, ours in pairs])
        finally:
            watch.stop()
    client.insist("POST", f"training-runs/{run}/cancel/")
    client.close()
    cluster.close()
    return Result(
        title="From a change in the cluster to the row",
        question="How long after a client begins to change a pod does the portal's committed row show it?",
        method=f"{rounds} rounds of {SAMPLES} PATCHes of an annotation of one running pod. Both clocks start when the PATCH is sent. "
        "A bare watch stops one at the line of the event; the other stops when a trigger of the benchmark tells (LISTEN) that "
        "the watcher's transaction with that resourceVersion was committed.",
        limits="One change at a time. The trigger's NOTIFY is part of the portal's time. Client, portal and cluster share the machine.",
        rows=[samples.row("change of a pod → committed row, p50", gate=GATE, goal=GOAL)],
    )


def _one(cluster: RawCluster, path: str, watched: Moments, stored: Moments) -> tuple[float, float]:
    begun = time.perf_counter()
    status, pod = cluster.ask(
        "PATCH", path, {"metadata": {"annotations": {"benchmark": uuid4().hex}}}, content_type=MERGE
    )
    if status != 200:
        raise SystemExit(f"the PATCH was answered {status}: {pod}")
    version = pod["metadata"]["resourceVersion"]
    limit, ours = watched.of(version, "the bare watch"), stored.of(version, "the row")
    time.sleep(QUIET_SECONDS)
    return (limit - begun) * 1000, (ours - begun) * 1000


@contextmanager
def rows_told(fleet: Fleet, stored: Moments) -> Iterator[None]:
    """Meanwhile `stored` has the moment in which the row of each version of a pod was committed."""
    with fleet.database() as database, fleet.database() as listener:
        listening = threading.Thread(target=_listen, args=(listener, stored), daemon=True)
        database.execute(_TRIGGER)
        listening.start()
        try:
            yield
        finally:
            database.execute(_UNDO)
            database.execute(f"NOTIFY {_CHANNEL}, 'end'")
            listening.join(10)


def _listen(listener: psycopg.Connection, stored: Moments) -> None:
    listener.execute(f"LISTEN {_CHANNEL}")
    for notice in listener.notifies():
        if notice.payload == "end":
            return
        stored.put(notice.payload.partition(" ")[2], time.perf_counter())


def start_run(client: RestClient, fleet: Fleet) -> str:
    """The id of a run of one CPU pod that was asked for."""
    body: dict[str, Any] = {
        "team": fleet.team,
        "name": f"watched-{uuid4().hex[:8]}",
        "kind": "job",
        "image": "example.org/train:1",
    }
    body |= {"command": ["python", "train.py"], "cpu": "100m", "memory": "64Mi"}
    status, text = client.insist("POST", "training-runs/", json.dumps(body).encode())
    if status != 201:
        raise SystemExit(f"the submission was answered {status}: {text!r}")
    return str(json.loads(text)["id"])


def _running_pod(database: psycopg.Connection, run: str) -> dict[str, Any]:
    query = """
        SELECT pod.namespace, pod.name FROM workloads_podrecord AS pod
        JOIN workloads_workload AS workload ON workload.id = pod.workload_id
        WHERE workload.public_id = %s AND pod.phase = 'Running' AND workload.phase = 'Running'
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (row := database.execute(query, [run]).fetchone()) is None:
        if time.monotonic() > deadline:
            raise SystemExit("the run of the benchmark does not start")
        time.sleep(0.05)
    return {"namespace": row[0], "name": row[1]}
