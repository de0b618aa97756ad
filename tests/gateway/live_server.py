"""A real live process: uvicorn in a thread, on real PostgreSQL."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from controller.routes import Route
from foundation import clock
from gateway.asgi import Application
from gateway.live.passthrough import GatewayLimits
from teams.models import Team
from tests.cluster.cluster_faults import FaultServer
from tests.factories.teams import make_member, make_team, make_token
from tests.waiting import until
from workloads.models import Workload
from workloads.podspec.specs import RateLimit
from workloads.services import create_workload
from workloads.states import Priority

ACCESS_SECONDS = 0.5
LIMITS = GatewayLimits(
    request_bytes=64 * 1024, response_bytes=256 * 1024, access_seconds=ACCESS_SECONDS, again_seconds=0.5
)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    raw_headers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def json(self):
        return json.loads(self.body)


class Stream:
    """An open answer whose lines are read as they come."""

    def __init__(self, port: int, path: str, headers: dict[str, str] | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.connection.request("GET", path, headers=headers or {})
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def event(self, *, pings: bool = False) -> tuple[str, str, str] | str | None:
        """The next (id, name, data), a ping as "ping" where asked for; None when the stream is over."""
        found: dict[str, str] = {}
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if text == ": ping" and pings:
                return "ping"
            if text == "" and "event" in found:
                return found.get("id", ""), found["event"], found.get("data", "")
            name, _, value = text.partition(": ")
            found[name] = value
        return None

    def event_id(self) -> str:
        """The next id, with or without an event."""
        while line := self.response.readline().decode():
            if line.startswith("id: "):
                return line.removeprefix("id: ").strip()
        return ""

    def workload(self) -> str | None:
        """The id of the next workload event."""
        while (event := self.event()) is not None:
            if event[1] == "workload":
                return json.loads(event[2])["workload"]
        return None

    def close(self) -> None:
        self.response.close()
        self.connection.close()


class LiveServer:
    def __init__(self, limits: GatewayLimits) -> None:
        self.application = Application(limits)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.seen: list[dict[str, str]] = []
        """The headers of all requests, by lower-case names."""
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._socket.getsockname()[1]
        self.server = uvicorn.Server(
            uvicorn.Config(
                self._remembering_its_loop,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                lifespan="on",
                interface="asgi3",
                timeout_graceful_shutdown=5,
            )
        )
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._socket]})
        self._open: list[Stream] = []
        self._thread.start()
        until(lambda: self.server.started and self.health()["listening"])

    async def _remembering_its_loop(self, scope, receive, send):
        self.loop = asyncio.get_running_loop()
        if scope["type"] == "http":
            self.seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self.application(scope, receive, send)

    def stop(self) -> None:
        if not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self.application.end_streams)
        self.server.should_exit = True
        self._thread.join(timeout=30)
        assert not self._thread.is_alive()
        for stream in self._open:
            stream.close()
        self._socket.close()

    def health(self) -> dict:
        return self.get("/-/healthz").json

    def get(self, path: str, *, token: str | None = None, headers: dict[str, str] | None = None) -> Answer:
        return self.send("GET", path, token=token, headers=headers)

    def send(self, method, path, *, token=None, headers=None, body=None, chunked=False) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            given = ({"Authorization": f"Bearer {token}"} if token else {}) | (headers or {})
            connection.request(method, path, headers=given, body=body, encode_chunked=chunked)
            response = connection.getresponse()
            raw = response.getheaders()
            lower = {name.lower(): value for name, value in raw}
            return Answer(response.status, lower, response.read(), raw)
        finally:
            connection.close()

    def metric(self, name: str, **labels: str) -> float:
        """The value of a series, summed over those with such labels; 0.0 without any."""
        self.health()  # The loop has turned: what was answered before is counted.
        text = self.application.exposition().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def stream(self, path: str, **headers: str) -> Stream:
        opened = Stream(self.port, path, headers)
        self._open.append(opened)
        return opened


class Bench:
    """One team with a member, and a running endpoint `digits` behind the fault server."""

    def __init__(self, upstream: FaultServer) -> None:
        self.upstream = upstream
        self.membership = make_member("viewer", team=make_team("vision"))
        self.team, self.user = self.membership.team, self.membership.user
        self.token = make_token(self.user)
        self.timeout_seconds = 10.0
        self.rate: RateLimit | None = None
        self.revision = 1
        self.port = 8080
        self.endpoint = self.make_endpoint()

    def make_endpoint(
        self, name: str = "digits", *, team: Team | None = None, phase: str = "Running"
    ) -> Workload:
        now = clock.now()
        workload = create_workload(
            kind="endpoint",
            team=team or self.team,
            owner=self.user,
            name=name,
            priority=Priority.NORMAL,
            flavor=None,
            capacity_type="on-demand",
            units=0,
            units_each=0,
            pod_count=1,
            preemptible=False,
            time_limit_seconds=None,
            max_retries=0,
            labels={},
            actor="tests",
            simulated=True,
            now=now,
        )
        self.set_phase(workload, phase, "Ready" if phase == "Running" else "Loading")
        return workload

    @staticmethod
    def set_phase(workload: Workload, phase: str, reason: str) -> None:
        workload.phase, workload.reason = phase, reason
        workload.save(update_fields=["phase", "reason"])

    def routes(self, workloads: Sequence[Workload]) -> dict[int, Route]:
        return {each.pk: self.route(each) for each in workloads}

    def route(self, workload: Workload) -> Route:
        return Route(
            public_id=workload.public_id,
            namespace=workload.team.namespace_name,
            service=workload.name,
            port=self.port,
            timeout_seconds=self.timeout_seconds,
            phase=workload.phase,
            reason=workload.reason,
            wakes=True,
            revision=self.revision,
            rate=self.rate,
        )

    def expired_token(self) -> str:
        long_ago = clock.now() - timedelta(days=400)
        with clock.freeze(long_ago):
            return make_token(self.user, name="old")


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
