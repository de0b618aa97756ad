"""An API server on a real socket that serves pods and their logs, can cut streams, and counts them."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from foundation import clock
from tests.cluster.cluster_faults import FaultServer, status
from tests.factories.catalogue import make_flavor
from tests.factories.teams import make_member, make_team
from workloads.models import Attempt, PodRecord, Workload

START = datetime(2026, 10, 3, 12, tzinfo=UTC)


def stamp(index: int, *, step_ms: int = 10) -> bytes:
    at = START + timedelta(milliseconds=index * step_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond * 1000 + 7:09d}Z".encode()


class Container:
    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.previous: list[bytes] = []
        self.rotated = 0  # a new request is shown the lines from here on: those of the current file
        self.ended = False
        self.restarts = 0


class LogBed:
    def __init__(self, folder) -> None:
        self.changed = threading.Condition()
        self.pods: dict[str, tuple[str, dict[str, Container]]] = {}
        self.cut_after: int | None = None  # a stream breaks inside the line after so many
        self.end_after: int | None = None  # a stream ends cleanly inside that line
        self.following = self.following_max = self.follows = 0
        self.unavailable = self.node_lost = False
        self.server = FaultServer(folder / "kubeconfig", self._answer)

    def close(self) -> None:
        with self.changed:
            self.pods.clear()
            self.changed.notify_all()
        self.server.close()

    def add(self, name: str, uid: str, containers=("main",)) -> dict[str, Container]:
        with self.changed:
            self.pods[name] = (uid, {each: Container() for each in containers})
            return self.pods[name][1]

    def write(self, name: str, *lines: bytes, container="main") -> None:
        with self.changed:
            self.pods[name][1][container].lines += lines
            self.changed.notify_all()

    def rotate(self, name: str, *, container="main") -> None:
        """The kubelet begins a new file. Who follows the old one goes on; who asks anew is not shown it."""
        with self.changed:
            kept = self.pods[name][1][container]
            kept.rotated = len(kept.lines)

    def end(self, name: str) -> None:
        with self.changed:
            for container in self.pods[name][1].values():
                container.ended = True
            self.changed.notify_all()

    def remove(self, name: str) -> None:
        with self.changed:
            del self.pods[name]
            self.changed.notify_all()

    def _answer(self, exchange) -> None:
        url = urlsplit(exchange.request.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        name = url.path.split("/")[6]
        if self.unavailable:
            exchange.reply(503, status(503, "ServiceUnavailable", "away"))
        elif name not in self.pods:
            exchange.reply(404, status(404, "NotFound", f'pods "{name}" not found'))
        elif url.path.endswith("/log") and self.node_lost:
            exchange.reply(500, status(500, "InternalError", "dial tcp 10.0.0.1:10250: no route to host"))
        elif url.path.endswith("/log"):
            self._log(exchange, name, query)
        else:
            exchange.reply(200, self._manifest(name))

    def _manifest(self, name):
        uid, containers = self.pods[name]
        statuses = [
            {"name": each, "restartCount": c.restarts, "state": {"terminated" if c.ended else "running": {}}}
            for each, c in containers.items()
        ]
        phase = "Succeeded" if all(c.ended for c in containers.values()) else "Running"
        return {
            "metadata": {"uid": uid, "name": name},
            "status": {"phase": phase, "containerStatuses": statuses},
        }

    def _log(self, exchange, name, query) -> None:
        container = self.pods[name][1][query["container"]]
        since = query.get("sinceTime", "").rstrip("Z").encode()
        if query.get("previous"):
            body = b"".join(line for line in container.previous if line[:19] >= since)
            exchange.reply(200, body=body, content_type="text/plain")
            return
        follow = query.get("follow") == "true"
        exchange.start(content_type="text/plain")
        sent = 0
        with self.changed:
            self.follows += follow
            self.following += follow
            self.following_max = max(self.following_max, self.following)
        try:
            for line in self._lines(name, container, follow=follow):
                if line[:19] < since:
                    continue
                if follow and self.cut_after is not None and sent >= self.cut_after:
                    exchange.chunk(line[: len(line) // 2])
                    exchange.cut()
                    return
                if follow and self.end_after is not None and sent >= self.end_after:
                    exchange.chunk(line[: len(line) // 2])
                    exchange.finish()
                    return
                exchange.chunk(line)
                sent += 1
            exchange.finish()
        finally:
            with self.changed:
                self.following -= follow

    def _lines(self, name, container, *, follow):
        at = container.rotated
        while True:
            with self.changed:
                if follow:
                    self.changed.wait_for(
                        lambda: len(container.lines) > at or container.ended or name not in self.pods  # noqa: B023
                    )
                new = container.lines[at:]
            at += len(new)
            yield from new
            if not follow or (not new and (container.ended or name not in self.pods)):
                return


def make_workload(name="train", *, kind="training-run") -> Workload:
    team = make_team()
    now = clock.now()
    workload = Workload.objects.create(
        kind=kind,
        team=team,
        owner=make_member(team=team).user,
        name=name,
        flavor=make_flavor(f"flavor-{uuid4().hex[:8]}"),
        units=1,
        phase="Running",
        reason="Progressing",
        since=now,
        created_at=now,
        queued_at=now,
        attempt_number=1,
    )
    Attempt.objects.create(workload=workload, number=1, object_name=name, created_at=now)
    return workload


def make_pod(workload: Workload, name: str, *, phase="Running", attempt=1, **fields) -> PodRecord:
    now = clock.now()
    return PodRecord.objects.create(
        uid=str(uuid4()),
        namespace="team-x",
        name=name,
        workload=workload,
        attempt=attempt,
        resource_version="1",
        phase=phase,
        created_at=now,
        scheduled_at=now,
        **fields,
    )
