"""Who holds GPUs idle, and which alerts open: what the rows, REST and the page say is what the planted series say."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.test import Client

from foundation import clock
from foundation.models import PlatformSettings
from teams.models import AuditEvent
from telemetry import signals
from telemetry.models import Alert, GpuLook, IdleHold
from telemetry.services import look_at_gpus
from telemetry.tasks import look_at_all_gpus
from tests.factories.catalogue import make_node
from tests.factories.teams import PASSWORD, api_client
from tests.telemetry.gpu_bed import ENGINE, FREE, TEMP, USED, UTIL

pytestmark = pytest.mark.django_db
MIB = 1 << 20


def look():
    look_at_gpus(now=clock.now())


def held():
    return {(hold.workload.name, hold.gpu) for hold in IdleHold.objects.select_related("workload")}


def alerts():
    open_ones = Alert.objects.filter(closed_at=None).select_related("workload")
    return {(alert.workload.name, alert.rule) for alert in open_ones}


@pytest.mark.parametrize("how", ["exported", "plain"])
def test_held_idle_is_whoever_holds_memory_and_computes_nothing_for_half_an_hour(world, cards, how):
    cards.how, began = how, clock.now()
    _, idle = world.run("idle", gpus=2)
    _, busy = world.run("busy", gpus=1)
    _, once = world.run("once", gpus=1)
    _, young = world.run("young", gpus=1, minutes=10)
    _, theirs = world.run("theirs", gpus=1, team=world.other)
    cards.plant(idle, gpu=0, **{UTIL: 3.0})
    cards.plant(idle, gpu=1)
    cards.plant(busy, gpu=2)
    cards.plant(once, gpu=3, **{UTIL: lambda ago: 50.0 if 9 < ago < 10 else 0.0})
    cards.plant(young, gpu=4, minutes=10, **{UTIL: 0.0})
    cards.plant(theirs, gpu=5, **{UTIL: 0.0})
    cards.plant(None, gpu=6, **{UTIL: 0.0})
    cards.serve()
    look()
    assert held() == {("idle", "0"), ("theirs", "5")}
    hold = IdleHold.objects.get(workload__name="idle")
    assert (hold.utilization, hold.memory_used_mib, hold.memory_total_mib) == (3.0, 20_000.0, 40_000.0)
    assert began - timedelta(minutes=32) < hold.since < clock.now() - timedelta(minutes=29)


def test_a_slice_is_idle_by_its_own_engine(world, cards):
    _, pod = world.run("sliced", gpus=1, flavor=world.slices)
    labels = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}
    cards.plant(pod, labels=labels, **{UTIL: None, ENGINE: 0.02})
    cards.serve()
    look()
    assert [(hold.slice, hold.utilization) for hold in IdleHold.objects.all()] == [("1g.10gb #3", 2.0)]


def test_who_works_again_is_off_the_list_and_since_when_it_was_idle_stays(world, cards):
    run, pod = world.run("idle", gpus=1)
    cards.plant(pod, **{UTIL: 0.0})
    cards.serve()
    look()
    IdleHold.objects.update(since=clock.now() - timedelta(hours=3))
    look()
    assert clock.now() - IdleHold.objects.get().since > timedelta(hours=2)
    pod.finished_at = clock.now()
    pod.save(update_fields=["finished_at"])
    look()
    assert held() == set()
    assert alerts() == set()
    assert Alert.objects.get(workload=run).closed_at is not None


def test_each_rule_opens_its_alert_and_a_sterner_one_silences_the_milder(world, cards):
    for name, values in {
        "full": {USED: 39_000.0, FREE: 1_000.0},
        "hot": {TEMP: 86.0},
        "idle": {UTIL: 9.0},
        "little": {UTIL: lambda ago: 40.0 if int(ago) % 2 else 10.0},
        "half": {UTIL: 45.0},
        "fine": {TEMP: 85.0},
    }.items():
        _, pod = world.run(name, gpus=1, minutes=150)
        cards.plant(pod, minutes=150, **values)
    _, serves = world.endpoint("serves", minutes=150)
    cards.plant(serves, minutes=150, **{UTIL: 45.0})
    told = []
    heard = lambda alert, **_: told.append((alert.workload.name, alert.rule))  # noqa: E731
    signals.alert_opened.connect(heard)
    try:
        cards.serve()
        look()
        look()
    finally:
        signals.alert_opened.disconnect(heard)
    expected = {
        ("full", "memory-full"),
        ("hot", "hot"),
        ("idle", "idle"),
        ("little", "little-used"),
        ("half", "little-used-in-training"),
    }
    assert alerts() == expected
    assert sorted(told) == sorted(expected)
    message = Alert.objects.get(rule="hot").message
    assert message == "Its GPU has 86 °C: lowest GPU temperature above 85 °C for 5 minutes."


def test_what_prometheus_does_not_say_leaves_the_rows_and_is_told(world, cards, settings):
    _, pod = world.run("idle", gpus=1)
    cards.plant(pod, **{UTIL: 0.0})
    cards.serve()
    look()
    settings.PROMETHEUS_URL = None
    look()
    assert held() == {("idle", "0")}
    answer = api_client(world.ana).get("/api/v1/idle/").json()
    assert "knows no Prometheus" in answer["unknown_because"]
    assert answer["answered_at"] < answer["looked_at"]


def test_rest_tells_a_member_the_teams_and_a_manager_all(world, cards):
    run, mine = world.run("mine", gpus=1)
    _, theirs = world.run("theirs", gpus=1, team=world.other)
    cards.plant(mine, **{UTIL: 0.0})
    cards.plant(theirs, **{UTIL: 0.0})
    cards.serve()
    look()

    def names(user, query=""):
        body = api_client(user).get(f"/api/v1/idle/{query}").json()
        return {row["workload"]["name"] for row in body["results"]}

    assert names(world.ana) == {"mine"}
    assert names(world.oto) == {"theirs"}
    assert names(world.manager) == {"mine", "theirs"}
    assert names(world.manager, "?team=other") == {"theirs"}
    assert names(world.ana, "?team=other") == set()
    (row,) = api_client(world.ana).get("/api/v1/idle/").json()["results"]
    assert row["workload"] | {"id": 0} == {
        "id": 0, "kind": "training-run", "name": "mine", "team": "vision", "owner": "ana", "url": run.page_url,
    }  # fmt: skip
    assert (row["memory_used"], row["memory_total"]) == (20_000 * MIB, 40_000 * MIB)
    assert row["rate_per_hour"]["usd"] == "2.000000"
    seen = api_client(world.ana).get("/api/v1/alerts/?open=true&rule=idle").json()["results"]
    assert [(alert["workload"]["name"], alert["rule"]) for alert in seen] == [("mine", "idle")]
    assert api_client(world.ana).get("/api/v1/alerts/?open=false").json()["results"] == []


def patch(user, name, **changes):
    return api_client(user).patch(f"/api/v1/alert-rules/{name}/", changes, format="json")


def test_thresholds_and_scope_are_a_managers_to_change_and_hold_at_the_next_look(world, cards):
    _, mine = world.run("mine", gpus=1)
    _, theirs = world.run("theirs", gpus=1, team=world.other)
    for pod in (mine, theirs):
        cards.plant(pod, **{UTIL: 15.0})
    cards.serve()
    look()
    assert held() == set()
    assert patch(world.ana, "idle", threshold=20).status_code == 403
    answer = patch(world.manager, "idle", threshold=20, window_minutes=10, teams=["vision"])
    assert (answer.status_code, answer.json()["teams"]) == (200, ["vision"])
    assert answer.json()["words"] == "highest GPU utilization below 20 % for 10 minutes"
    rules = api_client(world.oto).get("/api/v1/alert-rules/").json()
    assert "idle" not in {rule["name"] for rule in rules}, "a scope names no team to strangers"
    assert "vision" not in str(rules)
    look()
    assert held() == {("mine", "0")}
    assert patch(world.manager, "idle", enabled=False).status_code == 200
    look()
    assert held() == set()
    assert alerts() == set()
    assert AuditEvent.objects.filter(action="alert-rule.update").count() == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"threshold": -1}, "threshold"),
        ({"threshold": "NaN"}, "threshold"),
        ({"window_minutes": 1}, "window_minutes"),
        ({"teams": ["nobody"]}, "teams"),
        ({"kinds": ["dream"]}, "kinds"),
        ({"query": "up"}, "query"),
    ],
)
def test_a_rule_that_is_none_is_refused_by_the_field(world, changes, field):
    answer = patch(world.manager, "idle", **changes)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert patch(world.manager, "nothing", threshold=1).status_code == 404


def browser(user):
    client = Client()
    assert client.login(username=user.username, password=PASSWORD)
    return client


def test_the_page_lists_them_with_their_owners_and_their_price(world, cards):
    _, mine = world.run("mine", gpus=1)
    _, theirs = world.run("theirs", gpus=1, team=world.other)
    for pod in (mine, theirs):
        cards.plant(pod, **{UTIL: 0.0})
    cards.serve()
    assert "Nobody has looked yet" in browser(world.ana).get("/idle/").content.decode()
    look()
    text = browser(world.ana).get("/idle/").content.decode()
    assert "mine" in text
    assert "theirs" not in text
    assert "$2.00" in text
    assert "theirs" in browser(world.manager).get("/idle/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_beat_has_the_worker_look_once_a_minute(world, cards):
    entry = django_settings.CELERY_BEAT_SCHEDULE["look-at-gpus"]
    assert (entry["task"], entry["schedule"]) == (look_at_all_gpus.name, 60.0)
    _, pod = world.run("idle", gpus=1)
    cards.plant(pod, **{UTIL: 0.0})
    cards.serve()
    look_at_all_gpus.apply()
    assert held() == {("idle", "0")}
    assert GpuLook.objects.get().unknown_because == ""


def test_capacity_is_told_flavor_by_flavor_and_node_by_node(world):
    run, pod = world.run("holds", gpus=2)
    for name, units in (("a100-0", 8), ("a100-1", 4)):
        make_node(name, units=units)
    type(pod).objects.filter(pk=pod.pk).update(node_name="a100-0", units=2)
    client = api_client(world.oto)
    rows = {row["flavor"]: row for row in client.get("/api/v1/cluster/capacity/").json()["results"]}
    row = rows[world.whole.name]
    assert row["words"] == "10 free, largest usable block 6"
    assert row["fragmentation"] == pytest.approx(0.4)
    assert rows[world.slices.name]["fragmentation"] is None
    first, second = client.get("/api/v1/cluster/capacity/nodes/").json()["results"]
    assert (first["name"], first["resources"]) == (
        "a100-0",
        [
            {"resource": "nvidia.com/gpu", "flavors": [world.whole.name], "units": 8, "held": 2, "foreign": 0, "free": 6}
        ],
    )  # fmt: skip
    assert second["resources"][0]["free"] == 4
    text = browser(world.oto).get("/cluster/?view=table").content.decode()
    assert "10 free, largest usable block 6" in text
    assert run.name not in text


def test_what_another_job_publishes_hides_no_idle_card_and_opens_no_alert(world, cards):
    row, _ = PlatformSettings.objects.get_or_create(pk=PlatformSettings.SINGLETON_PK)
    row.dcgm_job = "dcgm-exporter"
    row.save()
    _, pod = world.run("idle", gpus=1)
    _, fine = world.run("fine", gpus=1)
    for which, values in ((pod, {UTIL: 0.0}), (fine, {})):
        cards.plant(which, labels={"job": "dcgm-exporter"}, **values)
    forged = {"job": "kubernetes-pods", "UUID": "GPU-0-idle"}
    cards.plant(pod, labels=forged, **{UTIL: 100.0, USED: 1.0, FREE: 1.0})
    cards.plant(pod, labels={"job": "kubernetes-pods"}, **{UTIL: 100.0, USED: 90_000.0, FREE: 1.0})
    cards.plant(fine, labels={"job": "kubernetes-pods"}, **{TEMP: 120.0})
    cards.serve()
    look()
    assert [(hold.workload.name, hold.memory_total_mib) for hold in IdleHold.objects.all()] == [("idle", 40_000.0)]  # fmt: skip
    assert alerts() == {("idle", "idle")}
