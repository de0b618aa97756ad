"""Alerts about GPUs, and what an idle policy does, reach who subscribed to them."""

from __future__ import annotations

from datetime import timedelta
from email import message_from_bytes, policy

import pytest
from django.db import transaction
from django.test import Client

from foundation import clock
from jobs.catalogue import set_template
from jobs.idle.services import apply_policies
from jobs.models import TrainingRun
from notices.events import Topic, is_wanted
from notices.models import OutboxEvent
from telemetry.models import Alert, IdleHold
from telemetry.rules import NAMES
from telemetry.services import look_at_gpus
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.submitted import make_attempt, make_pod, make_run
from tests.factories.teams import ACTOR, api_client, make_member, make_team, make_user
from tests.telemetry.gpu_bed import FREE, TEMP, USED, UTIL, Cards
from workloads.models import PodRecord, ResourceFlavor
from workloads.states import Phase

pytestmark = pytest.mark.django_db


VALUES = {
    "idle": {UTIL: 0.0},
    "little-used": {UTIL: 20.0},
    "little-used-in-training": {UTIL: 40.0},
    "memory-full": {USED: 39_000.0, FREE: 1_000.0},
    "hot": {TEMP: 90.0},
}


@pytest.fixture
def cards(settings, tmp_path):
    planted = Cards(settings, tmp_path, real=False)
    with planted.exits:
        yield planted


def running(bed, owner=None, team=None, **spec):
    """A run with one pod on a GPU, for three hours."""
    team, flavor = team or bed.team, ResourceFlavor.objects.first() or make_flavor()
    make_quota(team, flavor)
    spec |= {"flavor": flavor, "phase": Phase.RUNNING, "gpus_per_replica": 1}
    run = make_run(team, owner or bed.ana, **spec)
    make_attempt(run)
    since = clock.now() - timedelta(hours=3)
    make_pod(run, units=1, name=f"{run.name}-{run.short_id}-1-0", created_at=since, started_at=since)
    return run


def look(bed, cards, **runs):
    """Look at cards of which these rules hold, each named with `_` for `-`."""
    bed.now = max(bed.later(seconds=1), clock.now())
    for name, run in runs.items():
        rule = name.replace("_", "-")
        cards.plant(run.pods.get(), minutes=130, **VALUES[rule])
    cards.serve()
    look_at_gpus(now=bed.now)


def look_after_the_end(bed, cards):
    PodRecord.objects.update(finished_at=clock.now())
    look(bed, cards)


def told(receiver):
    return [(got.json["type"], got.json["data"].get("rule")) for got in receiver.got]


def test_an_alert_is_told_once_when_it_opens_and_once_when_it_closes(bed, cards, receiver):
    bed.subscribe(url=receiver.url, topics=["gpus_idle"])
    run = running(bed, name="resnet")
    look(bed, cards, idle=run)
    look(bed, cards)
    bed.deliver()
    look_after_the_end(bed, cards)
    bed.deliver()
    assert told(receiver) == [("alert.opened", "idle"), ("alert.closed", "idle")]
    opened, closed = (got.json["data"] for got in receiver.got)
    expected = {
        "id": str(run.public_id),
        "name": "resnet",
        "team": "vision",
        "owner": "ana",
        "title": "Idle",
        "value": 0.0,
        "threshold": 10,
        "cards": 1,
        "message": "Its GPU has 0 %: highest GPU utilization below 10 % for 30 minutes.",
    }
    assert {name: opened[name] for name in expected} == expected
    assert opened["url"].endswith(f"/runs/{run.public_id}/")
    assert closed["message"] == f"It was open since {Alert.objects.get().opened_at:%Y-%m-%d %H:%M} UTC."
    assert closed["opened_at"] == opened["opened_at"]


@pytest.mark.parametrize(
    ("rule", "topic"),
    [
        ("idle", "gpus_idle"),
        ("little_used", "gpus_little_used"),
        ("little_used_in_training", "gpus_little_used"),
        ("memory_full", "gpus_memory_full"),
        ("hot", "gpus_hot"),
    ],
)
def test_each_kind_of_alert_is_a_topic_of_its_own(bed, cards, receiver, rule, topic):
    others = [each.value for each in Topic if each != topic]
    bed.subscribe(url=receiver.url + "?no", topics=others)
    bed.subscribe(url=receiver.url + "?yes", topics=[topic])
    look(bed, cards, **{rule: running(bed)})
    bed.deliver()
    assert [got.path for got in receiver.got] == ["/hook?yes"]


def test_no_rule_is_without_a_topic():
    topics = {topic.value for topic in Topic}
    assert all(is_wanted("alert.opened", serves=False, topics=topics, rule=name) for name in NAMES)


def test_a_team_is_told_of_its_own_alone(bed, cards, receiver):
    bed.subscribe(team=bed.team, url=receiver.url, topics=["gpus_hot", "gpus_idle"])
    other = make_member("lead", team=make_team("audio"), user=make_user("ben"))
    theirs = running(bed, owner=other.user, team=other.team)
    look(bed, cards, hot=running(bed, owner=bed.lea, name="ours"), idle=theirs)
    assert Alert.objects.count() == 2
    bed.deliver()
    assert [got.json["data"]["name"] for got in receiver.got] == ["ours"]


def test_a_look_that_comes_to_nothing_tells_nobody(bed, cards, receiver):
    bed.subscribe(url=receiver.url)
    run = running(bed)
    with transaction.atomic():
        look(bed, cards, idle=run)
        assert OutboxEvent.objects.filter(type="alert.opened").exists()
        transaction.set_rollback(True)
    assert not OutboxEvent.objects.exists()
    assert not Alert.objects.exists()


def test_chat_and_mail_say_it_in_words(bed, cards, receiver, mailbox):
    bed.subscribe(channel="chat", url=receiver.url, topics=["gpus_memory_full"])
    bed.subscribe(channel="mail", topics=["gpus_memory_full"])
    look(bed, cards, memory_full=running(bed, name="resnet"))
    bed.deliver()
    look_after_the_end(bed, cards)
    bed.deliver()
    first, second = (got.json["text"] for got in receiver.got)
    assert first.startswith("Run vision/resnet has a GPU alert: Memory nearly full. Its GPU has 98 %: lowest")
    assert second.startswith("Run vision/resnet no longer has the GPU alert: Memory nearly full. It was open")
    mail = message_from_bytes(mailbox.mails[0][1], policy=policy.default)
    assert mail["Subject"] == "[portal] Run vision/resnet has a GPU alert: Memory nearly full"
    assert "lowest GPU memory in use above 95 %" in mail.get_body(("plain",)).get_content()


def test_what_an_idle_policy_is_about_to_do_and_does_is_told_in_order(bed, receiver):
    bed.now = clock.now()
    bed.subscribe(url=receiver.url, topics=["gpus_idle"])
    set_template(
        name="notebook", title="N", idle_warn_minutes=60, idle_stop_minutes=90, actor=ACTOR, now=bed.now
    )
    run = running(bed, name="sleeps")
    row = TrainingRun.objects.get(workload=run)
    TrainingRun.objects.filter(pk=row.pk).update(spec={**row.spec, "template": "notebook"})
    IdleHold.objects.create(
        pod=run.pods.get(), workload=run, team=run.team, gpu="0", utilization=0, of_cards=1,
        since=bed.now - timedelta(minutes=61), seen_at=bed.now,
    )  # fmt: skip
    apply_policies(now=bed.now)
    apply_policies(now=bed.now)
    bed.later(minutes=31)
    IdleHold.objects.update(seen_at=bed.now)
    apply_policies(now=bed.now)
    bed.deliver()
    assert [got.json["type"] for got in receiver.got] == ["idle_policy.warned", "idle_policy.stopped"]
    warned, stopped = (got.json["data"]["message"] for got in receiver.got)
    assert warned.endswith("Template notebook stops it in 30 minutes unless one does something.")
    assert stopped.endswith("Resume it to go on from its last checkpoint.")


def test_the_form_offers_them_and_rest_takes_them(bed, receiver):
    client = Client()
    client.force_login(bed.ana)
    page = client.get("/notices/new/").content.decode()
    assert "GPUs do nothing, and when an idle policy is about to stop the run" in page
    body = {"name": "gpus", "channel": "webhook", "url": receiver.url, "topics": ["gpus_hot", "gpus_idle"]}
    answer = api_client(bed.ana).post("/api/v1/subscriptions/", body, format="json")
    assert (answer.status_code, answer.json()["topics"]) == (201, ["gpus_idle", "gpus_hot"])
