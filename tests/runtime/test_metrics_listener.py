"""The address on which a process tells its metrics and its health, to whoever reaches it."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass, field

import pytest
from prometheus_client.parser import text_string_to_metric_families

from foundation.vitals import Vitals
from portal.runtime import beat, work
from portal.runtime import metrics_server as metrics
from portal.runtime.metrics_server import ProcessReport
from portal.settings.env import Bind, load


@dataclass
class Clock:
    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Asked:
    """A listener on a free port, and who asks it."""

    report: ProcessReport
    server: object = field(init=False)

    def __post_init__(self) -> None:
        listener = metrics.listen(Bind(host="127.0.0.1", port=0))
        self.port = listener.getsockname()[1]
        self.server = metrics.answer(listener, self.report)

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


@pytest.fixture
def ask():
    asked = []

    def start(report: ProcessReport) -> Asked:
        asked.append(Asked(report))
        return asked[-1]

    yield start
    for each in asked:
        each.server.shutdown()
        each.server.server_close()


@pytest.mark.parametrize("host", ["10.244.3.17:8002", "portal-web", "evil.example", "[fd00::1]:8002"])
def test_host_names_and_schemes_are_nobodys_concern_here(ask, settings, host):
    settings.SECURE_SSL_REDIRECT, settings.ALLOWED_HOSTS = True, ["portal.example.org"]
    asked = ask(ProcessReport(metrics=metrics.own_metrics))
    for path in ("/metrics", "/metrics/", "/metrics?name%5B%5D=x"):
        status, text = asked.get(path, Host=host)
        assert status == 200
        assert "python_info" in {each.name for each in text_string_to_metric_families(text)}
    assert asked.get("/healthz", Host=host) == (200, "ok\n")
    assert asked.get("/healthz", "HEAD", Host=host) == (200, "")
    assert asked.get("/")[0] == asked.get("/api/v1/me/")[0] == 404
    assert asked.get("/metrics", "POST")[0] == 501


def test_a_process_whose_loop_gives_no_sign_for_too_long_is_stuck(ask):
    clock = Clock()
    vitals = Vitals(clock)
    away = []
    report = metrics.of_loop(vitals, process="one", seconds_most=60.0, excused=lambda: bool(away))
    asked = ask(report)
    clock.seconds += 60
    assert asked.get("/healthz")[0] == 200
    clock.seconds += 1
    assert asked.get("/healthz") == (503, "no sign of life for 61 s, of 60 s allowed\n")
    assert 'portal_sign_of_life_age_seconds{process="one"} 61.0' in asked.get("/metrics")[1]
    away.append("the broker")
    assert asked.get("/healthz")[0] == 200
    away.clear()
    vitals.sign()
    assert asked.get("/healthz")[0] == 200


@pytest.mark.parametrize("process", [beat, work])
def test_who_waits_for_the_broker_is_not_stuck(ask, process, servers, settings, monkeypatch):
    clock = Clock()
    signs = Vitals(clock)
    clock.seconds += process.STUCK_SECONDS + 1
    for broker, status in ((settings.REDIS_URL, 503), ("redis://127.0.0.1:1/0", 200)):
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(process.settings, "REDIS_URL", broker)
            assert ask(process.report(signs)).get("/healthz")[0] == status


def test_figures_that_cannot_be_had_are_no_end_of_the_listener(ask):
    def fails() -> bytes:
        raise OSError("the database is away")

    asked = ask(ProcessReport(metrics=fails))
    assert asked.get("/metrics")[0] == 503
    assert asked.get("/healthz")[0] == 200


def test_without_an_address_nothing_listens_and_one_that_is_taken_is_said():
    metrics.start(load({}).metrics_bind, ProcessReport(metrics=metrics.own_metrics))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = load({"PORTAL_METRICS_BIND": f"127.0.0.1:{taken.getsockname()[1]}"}).metrics_bind
        with pytest.raises(OSError, match="in use"):
            metrics.start(bind, ProcessReport(metrics=metrics.own_metrics))


def test_who_opens_connections_and_says_nothing_keeps_no_probe_out(ask):
    asked = ask(ProcessReport(metrics=lambda: b""))
    half = [
        socket.create_connection(("127.0.0.1", asked.port), timeout=30)
        for _ in range(metrics.CONNECTIONS_MAX * 2)
    ]
    for each in half:
        each.sendall(b"GET /metrics HTTP/1.1\r\nX-A: ")
    assert asked.get("/healthz") == (200, "ok\n")
    # The oldest were ended for those that came later.
    assert half[0].recv(1) == b""
    for each in half:
        each.close()
    assert asked.get("/healthz") == (200, "ok\n")
