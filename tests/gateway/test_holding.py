"""Requests for an endpoint at zero replicas, and requests that could not be sent at first."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import pytest

from foundation import clock
from gateway.live.waking import HoldLimits
from gateway.models import RequestCount
from gateway.services import create_endpoint_token, revoke_endpoint_token
from teams.actors import Actor
from telemetry.served_metrics import ENDPOINT_LABEL, REQUESTS_HELD, REQUESTS_IN_FLIGHT
from tests.cluster.cluster_faults import status
from tests.factories.teams import make_member
from tests.gateway.live_server import LIMITS, LiveServer
from tests.waiting import until
from workloads.models import Workload
from workloads.services import notify

# Tries for longer than a busy machine takes to answer three times.
PATIENT = replace(LIMITS, again_seconds=10.0)


@pytest.fixture
def serve(bench):
    """A live process with such limits of holding."""
    started: list[LiveServer] = []

    def make(*, limits=LIMITS, **hold) -> LiveServer:
        started.append(LiveServer(replace(limits, hold=HoldLimits(**hold))))
        return started[-1]

    yield make
    for server in started:
        server.stop()


def put_to_sleep(bench):
    bench.set_phase(bench.endpoint, "Running", "ScaledToZero")
    notify(bench.endpoint)


def wake_up(bench):
    bench.set_phase(Workload.objects.select_related("team").get(pk=bench.endpoint.pk), "Running", "Ready")
    notify(bench.endpoint)


def held(live, bench) -> float:
    return live.metric(REQUESTS_HELD, **{ENDPOINT_LABEL: str(bench.endpoint.public_id)})


class Caller(threading.Thread):
    """Somebody who waits for an answer."""

    def __init__(self, live, token, body=b"pixels"):
        super().__init__()
        self.live, self.token, self.body = live, token, body
        self.answer = None
        self.start()

    def run(self):
        self.answer = self.live.send("POST", "/vision/digits/v1", token=self.token, body=self.body)

    def result(self):
        self.join(timeout=30)
        assert self.answer is not None
        return self.answer


def one_who_waits(serve, bench, token) -> Caller:
    """A caller whose request is held, as the endpoint sleeps."""
    put_to_sleep(bench)
    live = serve()
    caller = Caller(live, token)
    until(lambda: held(live, bench) == 1)
    return caller


def test_a_request_calls_the_endpoint_and_is_answered_when_it_is_awake(serve, bench, upstream):
    put_to_sleep(bench)
    live = serve()
    callers = [Caller(live, bench.token, body=bytes([number]) * 1000) for number in range(5)]
    until(lambda: Workload.objects.get(pk=bench.endpoint.pk).called_at is not None)
    until(lambda: held(live, bench) == 5)
    assert live.metric(REQUESTS_IN_FLIGHT, **{ENDPOINT_LABEL: str(bench.endpoint.public_id)}) == 5
    assert upstream.requests == []
    bench.set_phase(bench.endpoint, "Running", "Waking")
    notify(bench.endpoint)
    assert held(live, bench) == 5
    wake_up(bench)
    assert [caller.result().status for caller in callers] == [200] * 5
    assert sorted(request.body for request in upstream.requests) == [bytes([n]) * 1000 for n in range(5)]
    assert held(live, bench) == 0
    assert live.metric(REQUESTS_IN_FLIGHT, **{ENDPOINT_LABEL: str(bench.endpoint.public_id)}) == 0


def test_who_has_waited_long_enough_is_told_to_come_back(serve, bench, upstream):
    put_to_sleep(bench)
    live = serve(seconds=0.3)
    answer = live.get("/vision/digits/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (503, "endpoint_waking")
    assert (answer.json["phase"], answer.json["reason"]) == ("Running", "ScaledToZero")
    assert int(answer.headers["retry-after"]) >= 1
    assert upstream.requests == []
    live.stop()
    (row,) = RequestCount.objects.all()
    assert (row.status_class, row.count, row.latency) == (5, 1, []), "the endpoint was never asked"


@pytest.mark.parametrize("limit", ["of_endpoint", "of_team", "in_all"])
def test_no_more_requests_are_held_than_may(serve, bench, limit):
    put_to_sleep(bench)
    live = serve(**{limit: 2})
    callers = [Caller(live, bench.token) for _ in range(2)]
    until(lambda: held(live, bench) == 2)
    answer = live.get("/vision/digits/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (503, "too_many_held")
    assert int(answer.headers["retry-after"]) >= 1
    wake_up(bench)
    assert [caller.result().status for caller in callers] == [200] * 2


@pytest.mark.parametrize("body", [b"", b"x" * 1000])
def test_a_caller_that_hangs_up_makes_room(serve, bench, upstream, body):
    put_to_sleep(bench)
    live = serve(of_endpoint=1)
    caller = socket.create_connection(("127.0.0.1", live.port))
    head = f"POST /vision/digits/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bench.token}\r\n"
    caller.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    until(lambda: held(live, bench) == 1)
    caller.close()
    until(lambda: held(live, bench) == 0)
    second = Caller(live, bench.token)
    until(lambda: held(live, bench) == 1)
    wake_up(bench)
    assert second.result().status == 200
    assert len(upstream.requests) == 1, "who hung up is not answered any more"


def test_an_endpoint_that_goes_while_requests_wait_is_not_found(serve, bench):
    caller = one_who_waits(serve, bench, bench.token)
    Workload.objects.filter(pk=bench.endpoint.pk).update(phase="Cancelled", finished_at=bench.endpoint.since)
    notify(bench.endpoint)
    assert caller.result().status == 404


NO_ENDPOINTS = 'no endpoints available for service "digits"'
REFUSED = "error trying to reach service: dial tcp 10.1.2.3:8080: connect: connection refused"
BROKEN = "error trying to reach service: EOF"


def fail_first(times: int, message: str):
    left = [times]

    def script(exchange):
        if left[0]:
            left[0] -= 1
            exchange.reply(503, status(503, "ServiceUnavailable", message))
        else:
            exchange.reply(200, {"digit": 7})

    return script


@pytest.mark.parametrize("message", [NO_ENDPOINTS, REFUSED])
def test_what_did_not_arrive_is_sent_again_with_its_whole_body(serve, bench, upstream, message):
    live = serve(limits=PATIENT)
    upstream.script = fail_first(2, message)
    body = b"\x01\xff" * 5000
    assert live.send("POST", "/vision/digits/", token=bench.token, body=body).status == 200
    assert [request.body for request in upstream.requests] == [body] * 3


def test_what_may_have_arrived_is_asked_again_only_where_it_changes_nothing(serve, bench, upstream):
    live = serve(limits=PATIENT)
    upstream.script = fail_first(1, BROKEN)
    answer = live.send("POST", "/vision/digits/", token=bench.token, body=b"x")
    assert (answer.status, len(upstream.requests)) == (503, 1)
    upstream.script = fail_first(1, BROKEN)
    assert live.get("/vision/digits/", token=bench.token).status == 200


def test_a_body_that_is_too_large_to_keep_is_sent_once(bench, upstream):
    live = LiveServer(replace(LIMITS, kept_bytes=1000))
    try:
        upstream.script = fail_first(1, NO_ENDPOINTS)
        answer = live.send("POST", "/vision/digits/", token=bench.token, body=b"x" * 50_000)
        assert (answer.status, answer.json["code"]) == (503, "no_endpoints")
        assert len(upstream.requests) == 1
    finally:
        live.stop()


def token_of_the_endpoint(bench):
    actor = Actor.of_user(make_member("member", team=bench.team).user)
    made = {"name": "app", "expires_in_days": 1, "now": clock.now()}
    return actor, *create_endpoint_token(actor=actor, endpoint=bench.endpoint, **made)


def test_a_token_opens_no_other_endpoint_that_takes_the_name_while_a_request_waits(serve, bench, upstream):
    _, _, text = token_of_the_endpoint(bench)
    caller = one_who_waits(serve, bench, text)
    Workload.objects.filter(pk=bench.endpoint.pk).update(phase="Cancelled", finished_at=bench.endpoint.since)
    notify(bench.make_endpoint())
    notify(bench.endpoint)
    # By which of the two changes it is looked at again is chance: the endpoint is gone, or another one that it does not open.
    assert caller.result().status in {401, 404}
    assert upstream.requests == []


def test_a_token_that_ends_while_its_request_waits_opens_nothing(serve, bench, upstream):
    actor, token, text = token_of_the_endpoint(bench)
    caller = one_who_waits(serve, bench, text)
    revoke_endpoint_token(actor=actor, token=token, now=clock.now())
    wake_up(bench)
    assert caller.result().status == 401
    assert upstream.requests == []


def test_a_request_that_comes_as_the_endpoint_falls_asleep_wakes_it(serve, bench, upstream):
    live = serve(limits=PATIENT)
    upstream.script = lambda exchange: exchange.reply(503, status(503, "ServiceUnavailable", NO_ENDPOINTS))
    caller = Caller(live, bench.token)
    until(lambda: upstream.requests)
    put_to_sleep(bench)
    until(lambda: held(live, bench) == 1)
    upstream.script = lambda exchange: exchange.reply(200, {"digit": 7})
    wake_up(bench)
    assert caller.result().status == 200
    assert {request.body for request in upstream.requests} == {caller.body}


def of_port(number):
    """Only that port is the Service's."""
    gone = 'no service port "8080" found for service "digits"'

    def script(exchange):
        if f":{number}/" in exchange.request.path:
            exchange.reply(200, {"digit": 7})
        else:
            exchange.reply(503, status(503, "ServiceUnavailable", gone))

    return script


def move_to_port(bench, number):
    bench.port = number
    notify(bench.endpoint)


def test_a_request_to_a_port_that_the_service_has_no_more_goes_to_the_one_that_it_has(serve, bench, upstream):
    live = serve(limits=PATIENT)
    upstream.script = of_port(9090)
    caller = Caller(live, bench.token)
    until(lambda: upstream.requests)
    move_to_port(bench, 9090)
    assert caller.result().status == 200
    assert {request.body for request in upstream.requests} == {caller.body}


def test_who_could_not_reach_the_old_port_for_all_the_time_there_was_is_sent_to_the_new_one(
    serve, bench, upstream
):
    live = serve(limits=replace(LIMITS, again_seconds=0.0))
    has_moved, answer = threading.Event(), of_port(9090)

    def script(exchange):
        if exchange.request.method == "POST" and ":8080/" in exchange.request.path:
            has_moved.wait(30)
        answer(exchange)

    upstream.script = script
    caller = Caller(live, bench.token)
    until(lambda: upstream.requests)
    move_to_port(bench, 9090)
    until(lambda: live.get("/vision/digits/", token=bench.token).status == 200)
    has_moved.set()
    assert caller.result().status == 200


def test_how_long_it_took_is_told_only_of_what_the_endpoint_was_asked(live, bench, upstream):
    live.send("POST", "/vision/digits/", token=bench.token, body=b"x" * (LIMITS.request_bytes + 1))
    upstream.script = lambda exchange: exchange.reply(503, status(503, "ServiceUnavailable", NO_ENDPOINTS))
    live.get("/vision/digits/", token=bench.token)
    live.stop()
    assert {(row.status_class, row.count) for row in RequestCount.objects.all()} == {(4, 1), (5, 1)}
    assert all(row.latency == [] for row in RequestCount.objects.all())
