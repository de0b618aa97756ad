"""The figures of an endpoint over time."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.contrib.staticfiles import finders

from foundation import clock
from gateway.services import Bucket, Tally, add_request_counts
from inference.models import Endpoint, ScaleSample
from pages.endpoints.analytics import decisions_of, failed_percent, replicas_chart
from pages.time_ranges import read_range

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]
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
    assert decisions[1].text == "Scaled 1 → 3: 11 by its metric, target 4; a call woke it"
    replicas = answer.context["charts"][0]
    assert len(replicas.marks) == 2
    assert replicas.marks[0].text.endswith(f"UTC\n{decisions[1].text}")
    assert answer.content.decode().count("Scaled 1 → 3: 11 by its metric, target 4") == 3


@pytest.mark.parametrize(
    ("trigger", "metric", "said"),
    [
        ("in-flight", 24.0, "24 requests in flight a replica, target 4"),
        ("requests-per-second", 2.5, "2.5 requests a second a replica, target 4"),
        ("cpu", 91.0, "91 % of the CPU that it asks for, target 4"),
    ],
)
def test_a_decision_says_what_was_measured(busy, trigger, metric, said):
    before = ScaleSample(at=clock.now(), desired=1, ready=1, minimum=1, maximum=6)
    after = ScaleSample(
        at=clock.now(),
        desired=3,
        ready=1,
        minimum=1,
        maximum=6,
        metric=metric,
        target=4,
        reason="ReadyForNewScale",
    )
    (decision,) = decisions_of([before, after], trigger=trigger)
    assert decision.text == f"Scaled 1 → 3: {said}"


def test_a_decision_for_another_size_says_that():
    before = ScaleSample(at=clock.now(), desired=1, ready=1, minimum=1, maximum=6)
    after = ScaleSample(at=clock.now(), desired=2, ready=1, minimum=2, maximum=8)
    (decision,) = decisions_of([before, after])
    assert decision.text == "Scaled 1 → 2: it may have 2 to 8 replicas now"


def test_the_drawings_are_a_table_too_when_it_is_asked_for(ana, busy):
    html = page(ana, busy).content.decode()
    assert "tab=analytics&amp;table=1#chart-table-title" in html
    answer = page(ana, busy, "&table=1")
    (scaled_up,) = [row for row in answer.context["chart_table"].rows if "1 → 3" in row.happened]
    assert scaled_up.cells[0] == "3"
    assert "Latency: p95" in answer.context["chart_table"].heads
    assert "Without the table" in answer.content.decode()


def test_the_time_is_told_in_the_zone_of_the_browser(ana, busy):
    ana.cookies["portal-zone"] = "Asia/Kolkata"
    answer = page(ana, busy)
    shown = answer.context["shown"]
    assert shown.zone_words == "Asia/Kolkata"
    assert " IST\nready: " in "".join(slot.text for slot in answer.context["charts"][0].slots)
    local = shown.begin.astimezone(ZoneInfo("Asia/Kolkata"))
    assert f'name="from" value="{local:%Y-%m-%dT%H:%M}"' in answer.content.decode()
    ana.cookies["portal-zone"] = "../../etc/passwd"
    assert page(ana, busy).context["shown"].zone_words == "UTC"


def test_drawings_are_in_the_zone_in_which_all_times_are(ana, busy):
    ana.cookies["portal-browser-zone"] = "Asia/Tokyo"
    assert page(ana, busy).context["shown"].zone_words == "Asia/Tokyo"
    ana.cookies["portal-zone"] = "Asia/Kolkata"
    assert page(ana, busy).context["shown"].zone_words == "Asia/Kolkata"


def test_no_script_writes_the_choice_of_a_person():
    scripts = {path.name: path.read_text() for path in Path(finders.find("portal")).glob("*.js")}
    assert [name for name, text in scripts.items() if "document.cookie =" in text] == ["times.js"]
    assert "portal-zone=" not in "".join(scripts.values())


def test_one_time_is_kept_on_every_tab(ana, busy):
    html = ana.get(f"/endpoints/{busy.public_id}/?tab=overview&range=6h").content.decode()
    assert ana.get(f"/endpoints/{busy.public_id}/?range=6h").context["shown"].name == "6h"
    for tab in ("analytics", "logs", "cost", "gpus"):
        page_of_tab = ana.get(f"/endpoints/{busy.public_id}/?tab={tab}&range=6h").content.decode()
        assert "?tab=overview&amp;range=6h" in page_of_tab
    assert "?tab=analytics&amp;range=6h" in html
    # Its figures come anew for that time, and the request below them stays.
    assert re.search(r'id="figures"[^>]*hx-get="[^"]*\?tab=overview&amp;range=6h"', html)


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


def test_the_figures_come_anew_with_what_serves_and_without_the_request(ana, busy):
    headers = {"HX-Request": "true", "HX-Target": "figures"}
    html = ana.get(f"/endpoints/{busy.public_id}/?tab=overview&range=1h", headers=headers).content.decode()
    assert html.strip().startswith('<div id="figures"')
    assert 'id="serves" hx-swap-oob="true"' in html
    assert 'id="try"' not in html


def test_what_it_was_used_for_stands_beside_what_it_cost(ana, busy):
    answer = ana.get(f"/endpoints/{busy.public_id}/?tab=cost")
    facts = answer.context
    assert (facts["calls_of_day"], facts["calls_of_hour"]) == (640, 640)
    rate = facts["cost_total"].current_rate_per_hour
    assert facts["cost_of_thousand"] == rate * 1000 // 640
    assert "1,000 requests cost about" in answer.content.decode()


def test_what_nobody_called_has_no_cost_of_a_request(ana, made):
    assert ana.get(f"/endpoints/{made['captions'].public_id}/?tab=cost").context["cost_of_thousand"] is None
