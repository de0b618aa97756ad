"""The idle policy on a cluster: who was warned and goes on doing nothing is suspended, and resumes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from jobs.catalogue import set_template
from jobs.idle.services import apply_policies
from jobs.models import TrainingRun
from telemetry.models import IdleHold
from tests.factories.teams import ACTOR
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_it_is_stopped_by_the_policy_and_goes_on_when_it_is_resumed(bench):
    set_template(
        name="notebook", title="N", idle_warn_minutes=30, idle_stop_minutes=60, actor=ACTOR, now=clock.now()
    )
    run = bench.running()
    spec = TrainingRun.objects.get(workload=run).spec
    TrainingRun.objects.filter(workload=run).update(spec={**spec, "template": "notebook"})
    now = clock.now()
    (pod,) = run.pods.all()
    for gpu in ("0", "1"):
        IdleHold.objects.create(
            pod=pod, workload=run, team=run.team, gpu=gpu, utilization=0,
            since=now - timedelta(minutes=31), seen_at=now,
        )  # fmt: skip
    apply_policies(now=now)
    assert bench.turn(run).phase == "Running"
    later = now + timedelta(minutes=30)
    IdleHold.objects.update(seen_at=later)
    apply_policies(now=later)
    assert Workload.objects.get(pk=run.pk).next_reconcile_at is not None
    IdleHold.objects.all().delete()
    bench.until(run, lambda run: run.phase == "Suspended")
    assert run.reason == "IdlePolicy"
    moves = run.events.order_by("id").values_list("reason", "actor", "source")
    steps = [move for move in moves if move[0].startswith("Idle")]
    assert steps[:2] == [
        ("IdleWarned", "system:idle-policy", "template notebook"),
        ("IdleStopped", "system:idle-policy", "template notebook"),
    ]
    assert [reason for reason, *_ in steps[2:]] == ["IdlePolicy", "IdlePolicy"]
    bench.resume(run)
    bench.until(run, lambda run: run.phase == "Running")
    assert run.attempt_number == 2
