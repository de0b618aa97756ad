"""A template's idle policy warns, then stops a run with its grace period; off by default, and never by what nobody knows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings as django_settings

from foundation import clock
from jobs.catalogue import set_template
from jobs.idle.policy import IdlePolicy, IdleRun, IdleStep, step_of
from jobs.idle.services import apply_policies
from jobs.models import IdleWarning, TrainingRun
from jobs.tasks import apply_idle_policies
from telemetry.models import IdleHold
from telemetry.services import look_at_gpus
from tests.factories.teams import ACTOR, api_client, make_user
from tests.telemetry.gpu_bed import UTIL
from workloads.models import Workload
from workloads.states import Desired, Phase, Reason

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(world, cards):
    """A run of two GPUs by a template, which have done nothing for hours."""
    run, pod = world.run("sleeps", gpus=2, minutes=200)
    spec = TrainingRun.objects.get(workload=run).spec
    TrainingRun.objects.filter(workload=run).update(spec={**spec, "template": "notebook"})
    for gpu in (0, 1):
        cards.plant(pod, gpu=gpu, minutes=60, **{UTIL: 0.0})
    cards.serve()
    look_at_gpus(now=clock.now())
    assert IdleHold.objects.filter(workload=run).count() == 2
    return run


def template(**policy):
    set_template(name="notebook", title="Notebook", actor=ACTOR, now=clock.now(), **policy)


def since(minutes):
    IdleHold.objects.update(since=clock.now() - timedelta(minutes=minutes))


def told(run):
    return list(
        run.events.filter(reason__startswith="Idle").order_by("id").values_list("reason", "actor", "source")
    )


def test_warned_first_and_stopped_when_the_time_between_has_passed(run):
    template(idle_warn_minutes=60, idle_stop_minutes=90)
    now = clock.now()
    since(59)
    apply_policies(now=now)
    assert told(run) == []
    since(61)
    apply_policies(now=now)
    apply_policies(now=now)
    warned = ("IdleWarned", "system:idle-policy", "template notebook")
    assert told(run) == [warned]
    since(400)
    apply_policies(now=now)
    assert told(run) == [warned], "however long it was idle, it has its half hour from the warning on"
    later = now + timedelta(minutes=31)
    IdleHold.objects.update(seen_at=later)
    apply_policies(now=later)
    assert told(run) == [warned, ("IdleStopped", "system:idle-policy", "template notebook")]
    run.refresh_from_db()
    assert (run.desired, run.desired_reason) == (Desired.SUSPEND, Reason.IDLE_POLICY)
    assert "template notebook stops a run after 90" in run.desired_message
    assert not IdleWarning.objects.exists()


@pytest.mark.parametrize("policy", [{}, {"idle_warn_minutes": 10_000}])
def test_without_a_policy_or_before_its_time_nothing_happens(run, policy):
    template(**policy)
    since(600)
    apply_policies(now=clock.now())
    assert told(run) == []


def test_one_card_that_works_and_what_was_seen_long_ago_stop_nobody(run):
    template(idle_warn_minutes=60, idle_stop_minutes=90)
    since(600)
    apply_policies(now=clock.now())
    assert IdleWarning.objects.count() == 1
    IdleHold.objects.filter(gpu="1").delete()  # The look finds that it works.
    apply_policies(now=clock.now() + timedelta(minutes=1))
    assert not IdleWarning.objects.exists(), "who works again is warned anew"
    later = clock.now() + timedelta(hours=5)
    apply_policies(now=later)
    assert [reason for reason, *_ in told(run)] == ["IdleWarned"]


def test_idle_cards_that_somebody_else_makes_up_stop_no_run_that_works(world, cards):
    run, pod = world.run("works", gpus=1, minutes=200)
    spec = TrainingRun.objects.get(workload=run).spec
    TrainingRun.objects.filter(workload=run).update(spec={**spec, "template": "notebook"})
    cards.plant(pod, gpu=0)
    cards.plant(pod, gpu=1, **{UTIL: 0.0})
    cards.serve()
    look_at_gpus(now=clock.now())
    assert IdleHold.objects.get(workload=run).of_cards == 2
    template(idle_warn_minutes=30, idle_stop_minutes=60)
    since(600)
    apply_policies(now=clock.now())
    assert told(run) == []


@pytest.mark.parametrize(
    ("idle", "warned", "step"),
    [
        (59, None, None),
        (60, None, IdleStep.WARNED),
        (500, None, IdleStep.WARNED),
        (89, 30, None),
        (90, 29, None),
        (90, 30, IdleStep.STOPPED),
    ],
)
def test_the_steps_of_a_policy(idle, warned, step):
    now = clock.now()
    policy = IdlePolicy(template="t", warn_minutes=60, stop_minutes=90)
    warned_at = None if warned is None else now - timedelta(minutes=warned)
    facts = IdleRun(idle_since=now - timedelta(minutes=idle), warned_at=warned_at, now=now)
    assert step_of(policy, facts) is step


def test_rest_takes_a_policy_only_with_a_warning(world):
    admin = api_client(make_user("root", platform_admin=True))
    body = {"name": "a", "title": "A", "idle_stop_minutes": 60}
    answer = admin.post("/api/v1/templates/", body, format="json")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "idle_stop_minutes")
    answer = admin.post("/api/v1/templates/", body | {"idle_warn_minutes": 30}, format="json")
    assert (answer.status_code, answer.json()["idle_stop_minutes"]) == (200, 60)
    answer = admin.patch("/api/v1/templates/a/", {"idle_stop_minutes": None}, format="json")
    assert (answer.status_code, answer.json()["idle_warn_minutes"], answer.json()["idle_stop_minutes"]) == (200, 30, None)  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_beat_wakes_it(run):
    entry = django_settings.CELERY_BEAT_SCHEDULE["apply-idle-policies"]
    assert (entry["task"], entry["schedule"]) == (apply_idle_policies.name, 60.0)
    template(idle_warn_minutes=60)
    since(61)
    apply_idle_policies.apply()
    assert [reason for reason, *_ in told(run)] == ["IdleWarned"]
    assert Workload.objects.get(pk=run.pk).phase == Phase.RUNNING
