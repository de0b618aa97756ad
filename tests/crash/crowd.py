"""Many runs submitted at once to a whole portal, what became of them, and what that cost its processes in CPU."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.crash import oracle
from tests.crash.fleet import KINDS, Fleet, RestClient
from tests.crash.load import SHAPES, Shape
from tests.crash.oracle import Seen
from tests.crash.raw_cluster import RawCluster, Watch

CLIENTS = 8
RUN = SHAPES[0]
"""One GPU for one second."""
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Crowd:
    """Submits to one fleet, under a watch of its own that was begun before."""

    fleet: Fleet
    accepted: dict[str, Shape] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    watches: list[Watch] = field(default_factory=list)

    def submit(self, count: int, *, clients: int = CLIENTS) -> float:
        """All of them from as many threads at once; seconds until the last was accepted."""
        start = threading.Barrier(clients)
        begun = time.monotonic()
        with ThreadPoolExecutor(clients) as pool:
            shares = [count // clients + (number < count % clients) for number in range(clients)]
            for each in [pool.submit(self._share, share, start) for share in shares]:
                self.accepted.update(dict.fromkeys(each.result(), RUN))
        return time.monotonic() - begun

    def _share(self, count: int, start: threading.Barrier) -> list[str]:
        client, accepted = RestClient(self.fleet), []
        try:
            start.wait(30)
            for _ in range(count):
                body = json.dumps(RUN.body(self.fleet, f"r-{uuid4().hex[:8]}")).encode()
                status, text = client.insist("POST", "training-runs/", body, key=uuid4().hex)
                assert status == 201, f"{status} {text[:300]!r}"
                accepted.append(json.loads(text)["id"])
        finally:
            client.close()
        return accepted

    def until_ended(self, seconds: float) -> None:
        oracle.settle(self.fleet, seconds)
        oracle.until_billed(self.fleet, 120)

    def wrong(self) -> list[str]:
        """Whatever is lost, doubled or billed wrongly, and what the watches could not see."""
        with self.fleet.database() as database:
            found = oracle.findings(database, self.accepted, self.seen)
        return found + [watch.problem for watch in self.watches if watch.problem]

    def jobs(self) -> int:
        """Jobs that the API server holds now; those that ended ten minutes ago are collected."""
        cluster = RawCluster(self.fleet.kubeconfig)
        try:
            return len(cluster.read(f"/apis/batch/v1/namespaces/{self.fleet.namespace}/jobs")["items"])
        finally:
            cluster.close()


@contextmanager
def crowd(fleet: Fleet) -> Iterator[Crowd]:
    """A crowd whose watches end with the block."""
    found, cluster = Crowd(fleet), RawCluster(fleet.kubeconfig)
    mine = f"mlportal.dev/team={fleet.team}"
    for path in ("/apis/batch/v1/jobs", "/api/v1/pods"):
        found.watches.append(cluster.watch(path, selector=mine, on_event=found.seen.take))
    try:
        yield found
    finally:
        for watch in found.watches:
            watch.stop()
        cluster.close()


def cpu_seconds(fleet: Fleet) -> dict[str, float]:
    """User and system time so far of each kind of process, with its children's."""
    return {kind: _of_tree(fleet.children[kind].pid) for kind in KINDS}


def _of_tree(pid: int) -> float:
    # The command in the second field may hold anything, spaces and brackets too.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / TICK
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(_of_tree(int(child)) for child in children)
