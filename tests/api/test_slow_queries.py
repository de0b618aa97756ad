"""A scaler's query that Prometheus does not get done: it is refused, and not kept as one that nobody could try."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from cluster import kinds
from inference.models import Endpoint
from telemetry.metric_queries import try_query
from tests.api.bench import ENDPOINTS, problem
from tests.factories.submitted import endpoint_body
from workloads.models import WatchCursor

GIVEN_UP = {"status": "error", "errorType": "timeout", "error": "query timed out in expression evaluation"}


@pytest.fixture
def prometheus(settings) -> Iterator[ThreadingHTTPServer]:
    """What the portal asks; `answer` is its status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body = server.answer
            payload = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    settings.PROMETHEUS_URL = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def scaled(bench):
    WatchCursor.objects.create(kind=kinds.SCALED_OBJECT.address)
    scaling = {"trigger": "prometheus", "threshold": 1, "query": "sum(rate(requests_total[1h]))"}
    return endpoint_body("vision", max_replicas=3, scaling=scaling)


@pytest.mark.parametrize("path", ["preview/", ""])
def test_a_query_that_prometheus_gives_up_is_refused_and_no_endpoint_made(bench, scaled, prometheus, path):
    prometheus.answer = 503, GIVEN_UP
    said = problem(bench.client.post(f"{ENDPOINTS}{path}", scaled), 422, "scaling.query")["errors"][0]
    assert said["code"] == "query_too_slow"
    assert "no result of this query within 5 seconds" in said["message"]
    assert not Endpoint.objects.exists()


def test_a_prometheus_that_is_away_is_no_fault_of_the_query(bench, scaled, prometheus):
    """It may be restarted just now; the answer says that nobody has tried the query."""
    prometheus.answer = 503, {"status": "error", "errorType": "unavailable", "error": "not ready"}
    answer = bench.client.post(f"{ENDPOINTS}preview/", scaled)
    assert answer.status_code == 200
    assert "query_not_tried" in {each["code"] for each in answer.json()["warnings"]}


def test_no_answer_in_time_is_a_query_that_takes_too_long():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        answer = try_query(f"http://127.0.0.1:{mute.getsockname()[1]}", "sum(a)", timeout_seconds=0.1)
    assert (answer.code, answer.doubt) == ("query_too_slow", "")
