"""What a run's GPUs did, in REST and on its page, is what the planted series say."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client

from foundation import clock
from telemetry.gpu_queries import EXPORTED, of_pods
from telemetry.gpu_series import gpu_series
from telemetry.ranges import in_steps
from tests.factories.teams import PASSWORD, api_client
from tests.telemetry.gpu_bed import ENGINE, FREE, TEMP, USED, UTIL, XID
from workloads.services import transition
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db
GIB = 1 << 30


def of(workload, *, minutes=60):
    now = clock.now()
    begin, step, slots = in_steps(now - timedelta(minutes=minutes), now)
    return gpu_series(workload, begin=begin, step=step, slots=slots, now=now)


def values(series, name):
    """Of all cards and slots, what is known."""
    (figures,) = [each for each in series.figures if each.metric.name == name]
    return [value for card in series.cards for value in figures.of_cards.get(card, ()) if value is not None]


@pytest.mark.parametrize("how", ["exported", "plain"])
def test_every_metric_of_every_card_by_either_way_of_labels(world, cards, how):
    run, pod = world.run(gpus=2)
    _, stranger = world.run("theirs", team=world.other)
    cards.how = how
    cards.plant(pod, gpu=0)
    cards.plant(pod, gpu=1, **{UTIL: 10.0, TEMP: 70.0, XID: 79.0})
    cards.plant(stranger, gpu=0, **{UTIL: 1.0})
    cards.serve()
    series = of(run)
    assert series.unknown_because == ""
    assert [(card.pod, card.gpu, card.model) for card in series.cards] == [
        (pod.name, "0", "NVIDIA A100"),
        (pod.name, "1", "NVIDIA A100"),
    ]
    assert set(values(series, "utilization")) == {90.0, 10.0}
    assert set(values(series, "memory_used")) == {20_000 * (1 << 20)}
    assert set(values(series, "memory_total")) == {40_000 * (1 << 20)}
    assert set(values(series, "temperature")) == {60.0, 70.0}
    assert set(values(series, "power")) == {300.0}
    assert set(values(series, "sm_clock")) == {1400.0}
    assert set(values(series, "tensor_activity")) == {50.0}
    assert set(values(series, "copy_utilization")) == {30.0}
    assert max(values(series, "xid")) == 79
    (utilization,) = [each for each in series.figures if each.metric.name == "utilization"]
    assert utilization.spread(30) == (10.0, 50.0, 90.0)


def test_a_slice_is_measured_by_its_own_engine(world, cards):
    run, pod = world.run(gpus=1, flavor=world.slices)
    cards.plant(pod, labels={"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}, **{UTIL: None, ENGINE: 0.25})
    cards.serve()
    series = of(run)
    assert [card.slice for card in series.cards] == ["1g.10gb #3"]
    assert set(values(series, "utilization")) == {25.0}


def test_a_step_has_the_average_of_what_was_measured_in_it(world, cards):
    run, pod = world.run(gpus=1, minutes=180)
    cards.plant(pod, minutes=180, **{UTIL: lambda ago: 100.0 if ago > 60 else 0.0})
    cards.serve()
    known = values(of(run, minutes=170), "utilization")
    assert (known[0], known[-2]) == (100.0, 0.0)


def test_what_nobody_measures_is_told_and_not_shown_as_zero(world, cards, settings):
    run, _ = world.run()
    assert "knows no Prometheus" in of(run).unknown_because
    cards.serve()
    assert "nothing of its GPUs" in of(run).unknown_because
    settings.PROMETHEUS_URL = "http://127.0.0.1:1"
    cache.clear()
    assert "does not answer" in of(run).unknown_because


def test_a_prometheus_that_is_away_is_left_alone_for_some_seconds(world, settings, monkeypatch):
    run, _ = world.run()
    settings.PROMETHEUS_URL = "http://127.0.0.1:1"
    cache.clear()
    of(run)
    monkeypatch.setattr("cluster.prometheus.query", pytest.fail)
    monkeypatch.setattr("cluster.prometheus.query_range", pytest.fail)
    assert "does not answer" in of(run).unknown_because


@pytest.mark.parametrize("name", ['a"} or {x="', "a|b", "A", "a\n", ".*", ""])
def test_no_name_that_could_be_more_than_a_name_gets_into_a_query(name):
    with pytest.raises(ValueError, match="no name"):
        of_pods(EXPORTED, "team-vision", [name])


def test_a_point_in_a_pods_name_is_a_point(world, cards):
    run, _ = world.run(gpus=1)
    pod = world.pod(run, units=1, minutes=60, name="a.b-0")
    twin = world.pod(run, units=0, minutes=60, name="axb-0")
    cards.plant(pod, **{UTIL: 7.0})
    cards.plant(twin, **{UTIL: 99.0})
    cards.serve()
    assert set(values(of(run), "utilization")) == {7.0}


def test_rest_tells_it_to_the_team_and_to_nobody_else(world, cards):
    run, pod = world.run(gpus=2)
    cards.plant(pod, gpu=0)
    cards.plant(pod, gpu=1, **{UTIL: 10.0})
    cards.serve()
    url = f"/api/v1/training-runs/{run.public_id}/metrics/"
    answer = api_client(world.ana).get(url)
    assert answer.status_code == 200, answer.content
    gpus = answer.json()["gpus"]
    assert (gpus["unknown_because"], gpus["complete"], len(gpus["cards"])) == (None, True, 2)
    by_name = {metric["name"]: metric for metric in gpus["metrics"]}
    assert by_name["utilization"]["unit"] == "percent"
    point = by_name["utilization"]["points"][20]
    assert (point["lowest"], point["average"], point["highest"]) == (10.0, 50.0, 90.0)
    assert [each["average"] for each in by_name["utilization"]["of_cards"]] == [90.0, 10.0]
    assert api_client(world.oto).get(url).status_code == 404
    assert api_client(world.manager).get(url).status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("step=61", "step"),
        ("step=60&from=2020-01-01T00:00:00Z&to=2020-03-01T00:00:00Z", "step"),
        ("to=never", "to"),
        ("query=up", "query"),
    ],
)
def test_a_range_that_is_none_is_refused_by_its_name(world, query, field):
    run, _ = world.run()
    answer = api_client(world.ana).get(f"/api/v1/training-runs/{run.public_id}/metrics/?{query}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_an_endpoints_metrics_have_its_gpus_beside_its_requests(world, cards):
    endpoint, pod = world.endpoint()
    cards.plant(pod, **{UTIL: 42.0})
    cards.serve()
    answer = api_client(world.ana).get(f"/api/v1/endpoints/{endpoint.public_id}/metrics/")
    assert answer.status_code == 200
    (metric,) = [each for each in answer.json()["gpus"]["metrics"] if each["name"] == "utilization"]
    assert metric["of_cards"][0]["average"] == 42.0


def browser(user):
    client = Client()
    assert client.login(username=user.username, password=PASSWORD)
    return client


def test_the_page_draws_it_with_marks_and_tells_it_in_tables(world, cards):
    run, pod = world.run(gpus=2)
    cards.plant(pod, gpu=0)
    cards.plant(pod, gpu=1, **{UTIL: 10.0, USED: 39_000.0, FREE: 1_000.0, XID: 79.0})
    cards.serve()
    answer = browser(world.ana).get(f"/runs/{run.public_id}/?tab=gpus")
    text = answer.content.decode()
    assert [chart.title for chart in answer.context["charts"]][:2] == ["GPU utilization", "GPU memory in use"]
    assert {line.name for line in answer.context["charts"][0].legend} == {"lowest", "average", "highest"}
    assert any("Running" in mark.text for mark in answer.context["charts"][0].marks)
    first, second = answer.context["card_rows"]
    assert first.cells[0] == "90 % / 90 %"
    assert second.cells[1:3] == ("38.1 GiB", "39.1 GiB")
    assert "fallen off the bus" in second.xid
    assert "50 % (10 % to 90 %)" in text
    assert 'aria-label="GPU utilization over time"' in text


def test_the_page_of_a_run_that_has_ended_shows_its_whole_time(world, cards):
    run, pod = world.run(gpus=1, minutes=300)
    transition(
        run,
        to=Phase.SUCCEEDED,
        reason=Reason.COMPLETED,
        message="",
        actor="tests",
        now=clock.now() - timedelta(minutes=200),
    )
    cards.plant(pod, minutes=300, until=200)
    cards.serve()
    answer = browser(world.ana).get(f"/runs/{run.public_id}/?tab=gpus")
    shown = answer.context["shown"]
    assert shown.begin <= run.started_at
    assert answer.context["card_rows"]


def test_the_page_of_an_endpoint_has_them_too_and_what_is_unknown_is_said(world, cards):
    endpoint, _ = world.endpoint()
    cards.serve()
    answer = browser(world.ana).get(f"/endpoints/{endpoint.public_id}/?tab=gpus&range=6h")
    assert "nothing of its GPUs" in answer.content.decode()
