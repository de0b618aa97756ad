"""From a change of one of many pods to its row, while many change, beside a bare watch that receives the changes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

from benchmarks.results import Result, Rounds, Row
from benchmarks.watch_to_row import Moments, rows_told
from benchmarks.worlds.database import variables
from tests.crash.fleet import ROOT, Fleet
from tests.crash.raw_cluster import MERGE, RawCluster
from tests.waiting import until

COUNT, A_SECOND, SAMPLES, HANDS = 5_000, 200, 1_000, 8
GATE, GOAL = 10.0, 4.0
LATE_MS = 250.0
READY_SECONDS = 300.0
_ENDED = {"terminated": {"exitCode": 1, "reason": "Error"}}


def measure(fleet: Fleet, *, rounds: int) -> Result:
    """`fleet` has a watcher, and nothing else that would take the machine from it."""
    pods = _planned(fleet)
    samples, changes = Rounds(), count()
    with _there(fleet, pods), fleet.database() as database:
        until(lambda: _known(database) == len(pods), READY_SECONDS, "the watcher knows all pods")
        watched, stored = Moments(), Moments()
        path = f"/api/v1/namespaces/{pods[0]['metadata']['namespace']}/pods"
        with closing(RawCluster(fleet.kubeconfig)) as cluster, rows_told(fleet, stored):
            watch = cluster.watch(
                path, on_event=lambda moment, _, pod: watched.put(pod["metadata"]["resourceVersion"], moment)
            )
            try:
                for _ in range(rounds):
                    begun = _change(fleet, pods, changes)
                    samples.limit.append(_since(begun, watched, "the bare watch"))
                    samples.ours.append(_since(begun, stored, "the row"))
            finally:
                watch.stop()
    return Result(
        title="Watch crowd: from a change of one of many pods to its row",
        question=f"With {COUNT:,} pods and {A_SECOND} changes a second, how long after a client begins to change a pod does its committed row show it?",
        method=f"{rounds} rounds of {SAMPLES:,} PATCHes of the status of pods, evenly {A_SECOND} a second from {HANDS} connections, each of another pod. "
        "All clocks start when a PATCH is sent. A bare watch stops one at the line of the event; the other stops when a trigger of the benchmark "
        "tells (LISTEN) that the watcher's transaction with that resourceVersion was committed.",
        limits="The portal's watcher alone: no worker looks at the runs that it wakes. Client, bare watch, portal and cluster share the machine.",
        rows=[
            samples.row("change of a pod → committed row, p50", gate=GATE, goal=GOAL),
            _slowest(samples),
        ],
    )


def _slowest(samples: Rounds) -> Row:
    ours, limit = (_p99(moments) for moments in (samples.ours, samples.limit))
    return Row(
        name="the same, p99",
        ours=f"{ours:.0f} ms",
        limit=f"{limit:.0f} ms",
        gate=f"≤ limit + {LATE_MS:g} ms",
        passed=ours <= limit + LATE_MS,
    )


def _p99(rounds: Sequence[Sequence[float]]) -> float:
    return statistics.quantiles([sample for turn in rounds for sample in turn], n=100)[98]


def _planned(fleet: Fleet) -> list[dict[str, Any]]:
    """Pods of runs that have rows by now."""
    command = [sys.executable, "-m", "benchmarks.worlds.planned_pods", str(COUNT)]
    done = subprocess.run(command, env=variables(fleet), cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def _there(fleet: Fleet, pods: Sequence[dict[str, Any]]) -> Iterator[None]:
    """All of them in the cluster, where no scheduler takes them."""
    namespace = pods[0]["metadata"]["namespace"]
    with closing(RawCluster(fleet.kubeconfig)) as cluster:
        named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        cluster.ask("POST", "/api/v1/namespaces", named)
        try:
            # The account that every pod has is made by a controller, a moment later.
            accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            until(lambda: cluster.ask("GET", accounts)[0] == 200, READY_SECONDS, "the namespace is ready")
            path = f"/api/v1/namespaces/{namespace}/pods"
            with ThreadPoolExecutor(HANDS) as hands:
                list(hands.map(lambda part: _make(fleet, path, part), [pods[n::HANDS] for n in range(HANDS)]))
            yield
        finally:
            cluster.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
            cluster.ask("DELETE", f"/api/v1/namespaces/{namespace}")


def _make(fleet: Fleet, path: str, pods: Sequence[dict[str, Any]]) -> None:
    with closing(RawCluster(fleet.kubeconfig)) as cluster:
        for pod in pods:
            status, said = cluster.ask("POST", path, pod)
            if status != 201:
                raise SystemExit(f"a pod was answered {status}: {said}")


def _known(database: Any) -> int:
    return int(database.execute("SELECT count(*) FROM workloads_podrecord").fetchone()[0])


def _change(fleet: Fleet, pods: Sequence[dict[str, Any]], changes: Iterator[int]) -> dict[str, float]:
    """When the PATCH was sent that made each version."""
    numbers = [next(changes) for _ in range(SAMPLES)]
    began = time.perf_counter() + 0.5
    begun: dict[str, float] = {}
    guard = threading.Lock()

    def hand(own: int) -> None:
        with closing(RawCluster(fleet.kubeconfig)) as cluster:
            for place in range(own, SAMPLES, HANDS):
                pod = pods[numbers[place] % len(pods)]["metadata"]
                path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
                time.sleep(max(0.0, began + place / A_SECOND - time.perf_counter()))
                sent = time.perf_counter()
                status, answer = cluster.ask("PATCH", path, _state(numbers[place]), content_type=MERGE)
                if status != 200:
                    raise SystemExit(f"the PATCH was answered {status}: {answer}")
                with guard:
                    begun[answer["metadata"]["resourceVersion"]] = sent

    with ThreadPoolExecutor(HANDS) as hands:
        list(hands.map(hand, range(HANDS)))
    return begun


def _state(number: int) -> dict[str, Any]:
    """Another state than any before: its container was started again."""
    container = {
        "name": "main",
        "image": "example.org/train:1",
        "imageID": "",
        "ready": True,
        "restartCount": number + 1,
        "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}},
        "lastState": _ENDED,
    }
    return {"status": {"phase": "Running", "containerStatuses": [container]}}


def _since(begun: dict[str, float], moments: Moments, what: str) -> list[float]:
    return [(moments.of(version, what) - sent) * 1000 for version, sent in begun.items()]
