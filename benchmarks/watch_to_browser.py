"""From a change of a pod in the API server to the event that a browser gets, beside a bare watch that receives the change."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from benchmarks.results import Result, Rounds
from benchmarks.watch_to_row import (
    DEADLINE_SECONDS,
    GATE,
    GOAL,
    QUIET_SECONDS,
    SAMPLES,
    WARM_UP,
    Moments,
    start_run,
)
from tests.crash.fleet import Fleet, RestClient
from tests.crash.raw_cluster import MERGE, RawCluster
from tests.waiting import until


def measure(fleet: Fleet, *, rounds: int) -> Result:
    samples, watched, told = Rounds(), Moments(), Arrivals()
    with (
        closing(RawCluster(fleet.kubeconfig)) as cluster,
        closing(RestClient(fleet)) as client,
        _closed_nodes(cluster),
    ):
        run = start_run(client, fleet)
        pod = until(lambda: _waiting_pod(cluster, fleet, run), DEADLINE_SECONDS, "a pod waits for a node")
        path = f"/api/v1/namespaces/{fleet.namespace}/pods"
        watch = cluster.watch(
            path, on_event=lambda moment, _, pod: watched.put(pod["metadata"]["resourceVersion"], moment)
        )
        with _browser(client, run, told):
            for number in range(WARM_UP + rounds * SAMPLES):
                if number >= WARM_UP and (number - WARM_UP) % SAMPLES == 0:
                    samples.limit.append([])
                    samples.ours.append([])
                limit, ours = _one(cluster, f"{path}/{pod}/status", number, watched, told)
                if number >= WARM_UP:
                    samples.limit[-1].append(limit)
                    samples.ours[-1].append(ours)
        watch.stop()
        client.insist("POST", f"training-runs/{run}/cancel/")
    return Result(
        title="From a change in the cluster to the browser",
        question="How long after a client begins to change a pod does an open page get the event of it?",
        method=f"{rounds} rounds of {SAMPLES} PATCHes of what the scheduler says of a pod that waits for a node, which is what the page of its run "
        "says. Both clocks start when the PATCH is sent. A bare watch stops one at the line of the event; the other stops at the first byte of the "
        "server-sent event: the watcher, a worker that looks at the run, PostgreSQL and the live process lie between.",
        limits="One change at a time. Client, portal and cluster share the machine. What the page then fetches is not in it.",
        rows=[samples.row("change of a pod → server-sent event, p50", gate=GATE, goal=GOAL)],
    )


class Arrivals:
    """When each event came."""

    def __init__(self) -> None:
        self._moments: list[float] = []
        self._news = threading.Condition()

    def put(self) -> None:
        with self._news:
            self._moments.append(time.perf_counter())
            self._news.notify_all()

    def first_since(self, moment: float) -> float:
        with self._news:
            if not self._news.wait_for(
                lambda: self._moments and self._moments[-1] > moment, DEADLINE_SECONDS
            ):
                raise SystemExit("the change did not reach the browser")
            return next(come for come in self._moments if come > moment)


def _one(
    cluster: RawCluster, path: str, number: int, watched: Moments, told: Arrivals
) -> tuple[float, float]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/{number + 1} nodes are available",
    }
    begun = time.perf_counter()
    status, pod = cluster.ask("PATCH", path, {"status": {"conditions": [condition]}}, content_type=MERGE)
    if status != 200:
        raise SystemExit(f"the PATCH was answered {status}: {pod}")
    limit = watched.of(pod["metadata"]["resourceVersion"], "the bare watch")
    ours = told.first_since(begun)
    time.sleep(QUIET_SECONDS)
    return (limit - begun) * 1000, (ours - begun) * 1000


@contextmanager
def _closed_nodes(cluster: RawCluster) -> Iterator[None]:
    """Meanwhile no node takes a pod."""
    nodes = [item["metadata"]["name"] for item in cluster.read("/api/v1/nodes")["items"]]

    def mark(*, closed: bool) -> None:
        for name in nodes:
            cluster.ask(
                "PATCH",
                f"/api/v1/nodes/{name}",
                {"spec": {"unschedulable": closed}},
                content_type=MERGE,
            )

    mark(closed=True)
    try:
        yield
    finally:
        mark(closed=False)


def _waiting_pod(cluster: RawCluster, fleet: Fleet, run: str) -> str:
    status, found = cluster.ask(
        "GET",
        f"/api/v1/namespaces/{fleet.namespace}/pods?labelSelector=mlportal.dev/workload-id%3D{run}",
    )
    return found["items"][0]["metadata"]["name"] if status == 200 and found["items"] else ""


@contextmanager
def _browser(client: RestClient, run: str, told: Arrivals) -> Iterator[None]:
    """An open page's stream of events of the run."""
    status, headers, said = client.once("GET", f"stream/?workload={run}")
    if status != 307:
        raise SystemExit(f"the stream was answered {status}: {said!r}")
    to = urlsplit(headers["Location"])
    connection = http.client.HTTPConnection(str(to.hostname), to.port, timeout=600)
    connection.request("GET", f"{to.path}?{to.query}")
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f"the stream was answered {answer.status}: {answer.read()!r}")
    reading = threading.Thread(target=_read, args=(answer, told), daemon=True)
    reading.start()
    try:
        yield
    finally:
        if connection.sock is not None:
            # Closing alone does not wake a thread that reads.
            connection.sock.shutdown(2)
        reading.join(10)
        connection.close()


def _read(answer: Any, told: Arrivals) -> None:
    while line := answer.readline():
        if line.startswith(b"event: workload"):
            told.put()
