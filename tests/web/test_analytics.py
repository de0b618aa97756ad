"""The figures of an endpoint over time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from gateway.services import Bucket, Tally, add_request_counts
from inference.models import Endpoint, ScaleSample
from pages.endpoints.analytics import decisions_of, failed_percent, replicas_chart
from pages.time_ranges import read_range

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def count(workload, minute, *, revision=1, klass=2, requests=60, place=5):
    """So many answers in that minute, each in the bucket at `place` (5: 20 to 50 ms)."""
    latency = [0] * place + [requests]
    tally = Tally(count=requests, milliseconds=requests * 35, latency=latency)
    add_request_counts(tallies={Bucket(workload.public_id, revision, minute, klass): tally})


def scaled(workload, at, desired, *, ready=None, metric=None):
    return ScaleSample.objects.create(
        endpoint=Endpoint.objects.get(workload=workload),
        at=at,
        desired=desired,
        ready=desired if ready is None else ready,
        minimum=1,
        maximum=6,
        metric=metric,
        target=4,
        reason="ScalerActive",
    )


@pytest.fixture
def busy(made):
    """Ten minutes of calls, errors in one of them, and a scaler that went to 3 and back."""
    workload = made["digits"]
    now = clock.now().replace(second=0, microsecond=0)
    for back in range(10, 0, -1):
        count(workload, now - MINUTE * back, revision=1 if back > 5 else 2)
    count(workload, now - MINUTE * 3, revision=2, klass=5, requests=40, place=9)
    for back, desired, metric in ((10, 1, 2.0), (7, 3, 11.0), (6, 3, 9.5), (2, 1, 0.5)):
        scaled(workload, now - MINUTE * back, desired, metric=metric)
    return workload


def page(client, workload, query=""):
    return client.get(f"/endpoints/{workload.public_id}/?tab=analytics{query}")


def test_calls_errors_and_latency_are_told_in_all_and_by_revision(ana, busy):
    context = page(ana, busy).context
    assert context["total"].requests == 640
    assert failed_percent(context["total"]) == pytest.approx(6.25)
    rows = {row.number: row for row in context["revision_rows"]}
    assert {number: row.requests for number, row in rows.items()} == {1: 300, 2: 340}
    assert rows[1].failed_percent == 0
    assert rows[2].failed_percent == pytest.approx(100 * 40 / 340)
    assert rows[1].p50 == "35 ms"
    assert 500 < float(rows[2].p99.removesuffix(" ms")) <= 1000


def test_what_a_revision_is_counted_for_is_said_beside_its_figures(ana, busy, made):
    """While one rolls out, the pods of both answer."""
    said = "While a revision rolls out, requests count for the one before it"
    assert said in page(ana, busy).content.decode()
    assert said not in page(ana, made["captions"]).content.decode()


def test_scale_decisions_are_marked_with_what_the_scaler_saw(ana, busy):
    answer = page(ana, busy)
    decisions = answer.context["decisions"]
    assert [(each.before, each.after) for each in decisions] == [(3, 1), (1, 3)]
    assert decisions[1].why == "metric 11 against 4; a call woke it"
    replicas = answer.context["charts"][0]
    assert len(replicas.marks) == 2
    assert "1 to 3 replicas" in answer.content.decode()


def test_a_time_without_a_look_is_a_gap_and_the_future_is_empty(busy):
    now = clock.now()
    shown = read_range({}, now=now)
    samples = list(ScaleSample.objects.order_by("at"))
    chart = replicas_chart(samples, decisions_of(samples), shown, now=now)
    texts = [slot.text for slot in chart.slots]
    assert 10 <= len(texts) <= 14
    assert "ready: 3" in "".join(texts)


def test_the_time_is_in_the_address(ana, busy):
    assert page(ana, busy, "&range=6h").context["shown"].name == "6h"
    before = (clock.now() - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    until = (clock.now() - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    earlier = page(ana, busy, f"&from={before}&to={until}")
    assert earlier.context["total"].requests == 0
    assert "Nobody called it in this time." in earlier.content.decode()
    assert page(ana, busy, "&range=1y").status_code == 400


def test_an_endpoint_nobody_calls_says_so_instead_of_drawing_nothing(ana, made):
    html = page(ana, made["captions"]).content.decode()
    assert "Nothing was recorded in this time." in html
    assert "It has a fixed number of replicas." in html


def test_the_list_tells_how_it_was_called_of_late(ana, busy):
    html = ana.get("/endpoints/").content.decode()
    row = next(each for each in html.split("<tr>") if ">digits<" in each)
    assert "42.7" in row
    assert "6.2 % failed" in row
    assert "600 ms" in row
    other = next(each for each in html.split("<tr>") if ">captions<" in each)
    assert "none" in other


def test_the_overview_tells_by_what_it_scales_and_what_zero_saved(ana, world, settings):
    workload = world.sleeper(settings)
    world.start(workload)
    scaled(workload, clock.now(), 2, metric=7.5)
    html = ana.get(f"/endpoints/{workload.public_id}/").content.decode()
    for fact in ("in-flight", "0 and 3 replicas", "7.5", "target 4", "not measured yet", "0s asleep"):
        assert fact in html
