"""A whole portal in real processes, an endpoint whose pods really answer, and callers that never stop calling."""

from __future__ import annotations

import http.client
import json
import threading
from collections import deque

import pytest

from tests.crash.fleet import RestClient, running_fleet
from tests.waiting import until

pytestmark = pytest.mark.processes

REQUESTS = 1000
PATIENCE_SECONDS = 90.0
CALLERS = 6

# Says which version it is, on the port that it is told; `/stream` tells one event, and the other when somebody has asked for `/go`.
PROGRAM = """
import json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
go = threading.Event()
class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, document):
        data = json.dumps(document).encode()
        self.send_response(200); self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data))); self.end_headers(); self.wfile.write(data)
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.answer({"version": os.environ["VERSION"], "body": body})
    def do_GET(self):
        if self.path == "/go":
            go.set()
        if self.path != "/stream":
            self.answer({"version": os.environ["VERSION"]})
            return
        self.send_response(200); self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
        self.event(b"data: one\\n\\n"); go.wait(20); self.event(b"data: two\\n\\n"); self.wfile.write(b"0\\r\\n\\r\\n")
    def event(self, data):
        self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(data), data)); self.wfile.flush()
    def log_message(self, *_): pass
class Eager(ThreadingHTTPServer):
    request_queue_size = 128
Eager((sys.argv[1], int(os.environ.get("PORT", "8080"))), Server).serve_forever()
"""


@pytest.fixture(scope="module")
def portal(process_cluster, tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("fleet"), kubeconfig=process_cluster) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def rest(portal):
    client = RestClient(portal)
    yield client
    client.close()


@pytest.fixture(scope="module")
def endpoint(portal, rest):
    """The path of a ready endpoint below `endpoints/`."""
    body = {
        "team": portal.team,
        "name": "steady",
        "image": "python:3",
        "command": ["python", "-c", PROGRAM, "0.0.0.0"],
        "env": [{"name": "VERSION", "value": "1"}],
        "cpu": "100m",
        "memory": "256Mi",
        "ports": {"http": 8080},
        "probes": {"readiness": {"path": "/", "period_seconds": 1}},
    }
    status, text = rest.insist("POST", "endpoints/", json.dumps(body).encode(), key="steady")
    assert status == 201, text
    path = f"endpoints/{json.loads(text)['id']}/"
    until(lambda: shown(rest, path)["reason"] == "Ready", PATIENCE_SECONDS, "the endpoint is ready")
    yield path
    # Its pods are processes of a cluster that others use too.
    rest.insist("DELETE", path)
    until(lambda: shown(rest, path)["phase"] == "Cancelled", PATIENCE_SECONDS, "the endpoint is gone")


def shown(rest, path):
    status, text = rest.insist("GET", path)
    assert status == 200, text
    return json.loads(text)


def left(rest, path):
    """The pods that are not gone."""
    return [pod for pod in shown(rest, f"{path}pods/")["results"] if pod["gone_at"] is None]


class Callers:
    """Some who call again and again over connections that they keep, until told to stop."""

    def __init__(self, portal):
        self.answered = 0
        self.failed: list[str] = []
        self.latest: deque[str] = deque(maxlen=100)
        self._portal = portal
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=[n]) for n in range(CALLERS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _call(self, number):
        connection = http.client.HTTPConnection("127.0.0.1", self._portal.ports["live"], timeout=30)
        headers = {"Authorization": f"Bearer {self._portal.token}"}
        while not self._stopping.is_set():
            body = f"{number}:{self.answered}"
            try:
                connection.request("POST", f"/{self._portal.team}/steady/v1", body, headers)
                response = connection.getresponse()
                text = response.read()
                answer = json.loads(text)
                assert (response.status, answer["body"]) == (200, body), f"{response.status} {text!r}"
                self.latest.append(answer["version"])
            except (OSError, http.client.HTTPException, ValueError, KeyError, AssertionError) as error:
                self.failed.append(repr(error))
                connection.close()
            self.answered += 1
        connection.close()


def test_no_request_fails_while_a_new_revision_takes_over(portal, rest, endpoint):
    with Callers(portal) as callers:
        until(lambda: callers.answered > REQUESTS / 4, PATIENCE_SECONDS, "callers are under way")
        patch = json.dumps({"env": [{"name": "VERSION", "value": "2"}]}).encode()
        assert rest.insist("PATCH", endpoint, patch)[0] == 200
        until(lambda: set(callers.latest) == {"2"}, PATIENCE_SECONDS, "the new revision answers")
        # The old pod serves on for a while, and is really gone in the end.
        until(lambda: len(left(rest, endpoint)) == 1, PATIENCE_SECONDS, "the old pod is gone")
        seen = callers.answered
        until(lambda: callers.answered > max(REQUESTS, seen + 100), PATIENCE_SECONDS, "callers went on")
    assert callers.failed == []
    until(lambda: shown(rest, endpoint)["reason"] == "Ready", PATIENCE_SECONDS, "the rollout is over")
    assert_counted_by_revision(rest, endpoint, callers.answered)


def assert_counted_by_revision(rest, endpoint, calls):
    """In the series of REST, as soon as the live process has written it."""

    def counted():
        series = shown(rest, f"{endpoint}metrics/")["requests"]
        both = {each["revision"] for each in series["revisions"]} == {1, 2}
        return both and series["total"]["requests"] >= calls

    until(counted, PATIENCE_SECONDS, "all requests are counted, of both revisions")
    series = shown(rest, f"{endpoint}metrics/")["requests"]
    assert set(series["total"]["classes"]) == {"2xx"}
    assert 0 < series["total"]["p50_ms"] <= series["total"]["p99_ms"]


def test_no_request_fails_while_web_is_killed_and_started_again(portal, endpoint):
    with Callers(portal) as callers:
        until(lambda: callers.answered > REQUESTS / 4, PATIENCE_SECONDS, "callers are under way")
        portal.kill("web")
        seen = callers.answered
        until(lambda: callers.answered > seen + REQUESTS / 2, PATIENCE_SECONDS, "callers go on without web")
        portal.spawn("web")
        portal.until_web_answers()
        until(lambda: callers.answered > REQUESTS, PATIENCE_SECONDS, "callers went on")
    assert callers.failed == []


def test_an_event_of_a_stream_arrives_before_the_next_one_is_told(portal, endpoint):
    headers = {"Authorization": f"Bearer {portal.token}"}
    stream = http.client.HTTPConnection("127.0.0.1", portal.ports["live"], timeout=30)
    stream.request("GET", f"/{portal.team}/steady/stream", headers=headers)
    response = stream.getresponse()
    assert (response.status, response.getheader("Content-Type")) == (200, "text/event-stream")
    assert [response.readline(), response.readline()] == [b"data: one\n", b"\n"]
    other = http.client.HTTPConnection("127.0.0.1", portal.ports["live"], timeout=30)
    other.request("GET", f"/{portal.team}/steady/go", headers=headers)
    assert other.getresponse().read()
    assert response.read() == b"data: two\n\n"
    stream.close()
    other.close()


def test_no_request_fails_while_a_new_revision_takes_over_on_another_port(portal, rest, endpoint):
    env = [{"name": "VERSION", "value": "3"}, {"name": "PORT", "value": "9090"}]
    with Callers(portal) as callers:
        until(lambda: callers.answered > REQUESTS / 4, PATIENCE_SECONDS, "callers are under way")
        patch = json.dumps({"env": env, "ports": {"http": 9090}}).encode()
        assert rest.insist("PATCH", endpoint, patch)[0] == 200
        until(lambda: set(callers.latest) == {"3"}, PATIENCE_SECONDS, "the new revision answers")
        until(lambda: len(left(rest, endpoint)) == 1, PATIENCE_SECONDS, "the old pod is gone")
        seen = callers.answered
        until(lambda: callers.answered > max(REQUESTS, seen + 100), PATIENCE_SECONDS, "callers went on")
    assert callers.failed == []
