"""How often an endpoint may be called, and what is counted of it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from controller.routes import Route
from foundation import clock
from gateway import latency, queries
from gateway.asgi import Application
from gateway.live.metrics import Metrics
from gateway.live.passthrough import GatewayLimits
from gateway.live.ratelimit import Buckets
from gateway.models import RequestCount
from gateway.series import request_series
from gateway.services import Bucket, Tally, add_request_counts, create_endpoint_token
from portal.settings.http_limits import HttpLimits
from teams.actors import Actor
from telemetry.served_metrics import (
    CODE_LABEL,
    ENDPOINT_LABEL,
    REQUEST_DURATION,
    REQUESTS_IN_FLIGHT,
    REQUESTS_TOTAL,
    REVISION_LABEL,
)
from tests.factories.teams import make_member, make_token
from tests.gateway.live_server import LIMITS, LiveServer
from tests.waiting import until
from workloads.models import Workload
from workloads.podspec.specs import RateLimit


def test_a_bucket_lets_its_burst_through_and_then_its_rate():
    buckets, endpoint, rate = Buckets(), uuid4(), RateLimit(2.0, 5)
    assert [buckets.take(endpoint, rate, now=100.0) for _ in range(5)] == [0.0] * 5
    assert buckets.take(endpoint, rate, now=100.0) == pytest.approx(0.5)
    assert buckets.take(endpoint, rate, now=100.5) == 0.0
    assert buckets.take(endpoint, rate, now=100.5) > 0
    # An hour later no more than the burst has gathered.
    assert [buckets.take(endpoint, rate, now=3700.0) == 0.0 for _ in range(6)] == [True] * 5 + [False]
    assert buckets.take(uuid4(), rate, now=3700.0) == 0.0, "each has its own"
    assert buckets.take(endpoint, RateLimit(2.0, 1), now=3700.0) == 0.0, "a new limit begins anew"
    assert buckets.take(endpoint, None, now=3700.0) == 0.0


def test_beyond_its_rate_a_caller_is_told_when_to_come_back(live, bench, upstream):
    bench.rate = RateLimit(0.01, 3)
    other = bench.make_endpoint("letters")
    answers = [live.get("/vision/digits/", token=bench.token) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[3].json["code"] == "rate_limited"
    assert answers[3].headers["content-type"] == "application/problem+json"
    assert 90 <= int(answers[3].headers["retry-after"]) <= 100
    assert len(upstream.requests) == 3
    assert live.get(f"/vision/{other.name}/", token=bench.token).status == 200


@pytest.fixture
def few(bench):
    """A live process in which a user may have three calls under way."""
    server = LiveServer(replace(LIMITS, calls_of_user=3))
    yield server
    server.stop()


def begun(server, token):
    """A call whose body never ends."""
    head = f"POST /vision/digits/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 10"
    opened = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    opened.sendall(f"{head}\r\n\r\na".encode())
    return opened


def test_calls_that_are_begun_and_never_ended_fill_nobody_elses_place(few, bench):
    member = make_member("member", team=bench.team).user
    own, another = make_token(member), make_token(member, name="another")
    _, of_endpoint = create_endpoint_token(
        actor=Actor.of_user(member), endpoint=bench.endpoint, name="app", expires_in_days=1, now=clock.now()
    )
    with ExitStack() as stack:
        calls = [stack.enter_context(begun(few, token)) for token in (own, another, of_endpoint)]
        until(lambda: few.metric(REQUESTS_IN_FLIGHT) == 3)
        for token in (own, another, of_endpoint):
            refused = few.get("/vision/digits/", token=token)
            assert (refused.status, refused.json["code"]) == (429, "too_many_calls")
            assert "may be 3 at a time" in refused.json["detail"]
            assert refused.headers["retry-after"] == "5"
        assert few.get("/vision/digits/", token=bench.token).status == 200, "somebody else's call passes"
        others = [make_token(make_member("member", team=bench.team).user) for _ in range(2)]
        for token in (others[0], others[0], others[0]):
            stack.enter_context(begun(few, token))
        until(lambda: few.metric(REQUESTS_IN_FLIGHT) == 6)
        full = few.get("/vision/digits/", token=others[1])
        assert (full.status, full.json["code"]) == (429, "too_many_calls")
        assert "6 to the endpoints of one team" in full.json["detail"]
        calls[0].close()
        until(lambda: few.metric(REQUESTS_IN_FLIGHT) == 5)
        assert few.get("/vision/digits/", token=own).status == 200
    until(lambda: few.metric(REQUESTS_IN_FLIGHT) == 0)
    assert not few.application.live.callers._under_way


def test_a_user_has_a_quarter_of_the_connections_of_a_process():
    assert GatewayLimits().calls_of_user == 256
    assert GatewayLimits().calls_of_user * 3 < HttpLimits().connections


def test_prometheus_reads_requests_by_endpoint_revision_and_code(live, bench, upstream):
    of_endpoint = {ENDPOINT_LABEL: str(bench.endpoint.public_id)}
    for _ in range(3):
        live.get("/vision/digits/", token=bench.token)
    upstream.script = lambda exchange: exchange.reply(404, {})
    live.get("/vision/digits/none", token=bench.token)
    labels = {**of_endpoint, REVISION_LABEL: "1"}
    assert live.metric(REQUESTS_TOTAL, **labels, **{CODE_LABEL: "200"}) == 3
    assert live.metric(REQUESTS_TOTAL, **labels, **{CODE_LABEL: "404"}) == 1
    assert live.metric(f"{REQUEST_DURATION}_count", **labels) == 4
    assert live.metric(f"{REQUEST_DURATION}_bucket", **labels, le="+Inf") == 4
    assert live.metric(REQUESTS_IN_FLIGHT, **of_endpoint) == 0
    assert "mlportal_gateway_requests_in_flight{" in live.application.exposition().decode()


def test_metrics_are_not_on_the_port_that_clients_reach(live):
    assert live.get("/-/metrics").status == live.get("/-/metrics/").status == 404
    assert Application(GatewayLimits()).exposition() == b"", "asked before the server has started"


def test_an_endpoint_that_is_gone_takes_its_series_along(bench):
    gone = bench.make_endpoint("gone")
    Workload.objects.filter(pk=gone.pk).update(phase="Failed", finished_at=clock.now())
    metrics = Metrics()
    for endpoint in (bench.endpoint, gone):
        metrics.began(endpoint.public_id)
        metrics.ended(endpoint.public_id, 1, status=200, seconds=0.1)
    metrics.forget(metrics.endpoints() - queries.live_endpoints(among=metrics.endpoints()))
    text = metrics.exposition().decode()
    assert str(bench.endpoint.public_id) in text
    assert str(gone.public_id) not in text


def test_how_long_requests_took_is_read_from_the_histogram_within_a_bucket():
    histogram: list[int] = []
    for number in range(1, 101):
        latency.add(histogram, number / 1000)
    assert latency.quantile(histogram, 0.5) == pytest.approx(0.05, rel=0.1)
    assert latency.quantile(histogram, 0.95) == pytest.approx(0.095, rel=0.1)
    assert latency.quantile([], 0.5) is None
    latency.add(histogram, 5000.0)
    assert latency.quantile(histogram, 1.0) == latency.BOUNDS[-1]
    bounds = [latency.BOUNDS.index(bound) for bound in (0.001, 0.1)]
    exact: list[int] = []
    for place in bounds:
        latency.add(exact, latency.BOUNDS[place])
    assert [place for place, count in enumerate(exact) if count] == bounds, "a bound lies in its bucket"


def tally(*seconds: float) -> Tally:
    made = Tally(count=len(seconds), milliseconds=round(sum(seconds) * 1000))
    for each in seconds:
        latency.add(made.latency, each)
    return made


def test_two_processes_count_the_same_minute_and_the_series_adds_up_by_revision(bench):
    minute = clock.now().replace(second=0, microsecond=0) - timedelta(minutes=10)
    endpoint = bench.endpoint.public_id
    ok, failed = Bucket(endpoint, 1, minute, 2), Bucket(endpoint, 1, minute, 5)
    newer = Bucket(endpoint, 2, minute + timedelta(minutes=1), 2)
    add_request_counts(tallies={ok: tally(0.003), failed: Tally(count=2)})
    add_request_counts(tallies={ok: tally(0.003, 3.0), newer: tally(0.15)})
    assert sorted(RequestCount.objects.values_list("revision", "status_class", "count")) == [
        (1, 2, 3),
        (1, 5, 2),
        (2, 2, 1),
    ]
    end = minute + timedelta(minutes=5)
    series = request_series(endpoint=bench.endpoint, begin=minute, end=end, step=timedelta(minutes=1))
    assert [(point.at, point.revision, point.summary.requests) for point in series.points] == [
        (minute, 1, 5),
        (minute + timedelta(minutes=1), 2, 1),
    ]
    assert series.revisions[1].classes == {2: 3, 5: 2}
    assert 0.002 < series.revisions[1].p50 <= 0.005
    assert 2.0 < series.revisions[1].p99 <= 5.0
    assert 0.1 < series.revisions[2].p50 <= 0.2
    assert (series.total.requests, series.total.classes) == (6, {2: 4, 5: 2})
    empty = request_series(endpoint=bench.endpoint, begin=end, end=end + timedelta(hours=1), step=series.step)
    assert (empty.points, empty.total.requests, empty.total.p50) == ((), 0, None)


def test_counts_that_could_not_be_written_are_written_later(bench):
    from gateway.live.counts import Counts

    written = []

    async def write(tallies):
        if not written:
            written.append("failed")
            raise OSError
        written.append(dict(tallies))

    async def scenario():
        counts = Counts(write)
        route = Route(
            public_id=bench.endpoint.public_id, namespace="n", service="s", port=1,
            timeout_seconds=1, phase="Running", reason="Ready", revision=3,
        )  # fmt: skip
        now = clock.now()
        counts.add(route, status=200, seconds=0.003, asked=True, now=now)
        await counts.flush()
        counts.add(route, status=200, seconds=0.003, asked=True, now=now)
        counts.add(route, status=429, seconds=0.0, asked=False, now=now)
        await counts.flush()

    asyncio.run(scenario())
    found = {bucket.status_class: tally for bucket, tally in written[1].items()}
    assert (found[2].count, sum(found[2].latency)) == (2, 2)
    assert (found[4].count, found[4].latency) == (1, [])


def test_counts_that_are_kept_for_long_are_bounded(bench, monkeypatch):
    from gateway.live import counts as module

    monkeypatch.setattr(module, "BUCKETS_MAX", 3)
    now = clock.now()

    async def scenario():
        async def write(_tallies):
            """Away; meanwhile requests come."""
            for minute in range(3):
                counts.add(
                    bench.route(bench.endpoint), status=200, seconds=0.1, asked=True, now=moments[minute]
                )
            raise OSError

        counts = module.Counts(write)
        for attempt in range(4):
            moments = [now + timedelta(minutes=10 * attempt + minute) for minute in range(3)]
            counts.add(bench.route(bench.endpoint), status=500, seconds=0.1, asked=True, now=now)
            await counts.flush()
        return counts

    kept = asyncio.run(scenario())
    assert len(kept._tallies) <= 3


def test_an_endpoint_that_is_called_while_others_are_looked_for_keeps_its_counts():
    metrics, gone, new = Metrics(), uuid4(), uuid4()
    metrics.began(gone)
    metrics.ended(gone, 1, status=200, seconds=0.1)
    known = metrics.endpoints()
    metrics.began(new)
    metrics.ended(new, 1, status=200, seconds=0.1)
    metrics.forget(known)
    assert metrics.endpoints() == {new}


def test_times_before_all_counts_are_refused(bench, client):
    client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {bench.token}"
    url = f"/api/v1/endpoints/{bench.endpoint.public_id}/metrics/?to=0001-01-01T00:00:00Z"
    answer = client.get(url)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "to")
