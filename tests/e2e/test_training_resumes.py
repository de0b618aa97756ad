"""The demo's own training script, really run: stopped half-way, it goes on from the checkpoint it reported."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.client import connect
from cluster.errors import ClusterUnavailable
from cluster.names import DEFAULT_CLUSTER
from controller import services
from controller.reconcile.reconciler import reconcile
from demo.interruption import EPOCHS, request_for_two_nodes, unusable
from foundation import clock
from foundation.models import PlatformSettings
from jobs.services import submit_training_run
from jobs.specs import TrainingRunSpec
from logs import workload_logs
from teams.actors import Actor
from tenancy.volumes import create_volume
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.teams import make_member, make_team
from tests.waiting import until
from workloads.models import WatchCursor, Workload
from workloads.observations import record_node

SCRIPT = Path(__file__).resolve().parents[2] / "demo" / "digits" / "train.py"


class Hand:
    """Turns the reconciler by hand, so that nothing but the pod runs beside the test."""

    def __init__(self, client, workload):
        self.client = client
        self.workload = workload

    def until(self, done, seconds=120):
        def looked():
            Workload.objects.filter(pk=self.workload.pk).update(next_reconcile_at=clock.now())
            reconcile(public_id=self.workload.public_id, client=self.client, now=clock.now())
            self.workload.refresh_from_db()
            return done(self.workload)

        until(looked, seconds, lambda: f"{self.workload.phase}: {self.workload.message}")


@pytest.fixture
def bench(process_cluster, live_server, settings):
    """A team with both T4s of a cluster whose pods are processes, and two volumes."""
    settings.INTERNAL_URL = live_server.url
    PlatformSettings(grace_seconds=5).save()
    client = connect(process_cluster)
    for node in client.list(kinds.NODE).items:
        record_node(node, cluster=DEFAULT_CLUSTER, now=clock.now())
    team = make_team(f"resumes-{uuid4().hex[:6]}")
    actor = Actor.of_user(make_member(team=team).user)
    make_quota(team, make_flavor("t4", product="Tesla-T4"), 2)
    for name in ("models", "checkpoints"):
        create_volume(
            client,
            team=team,
            name=name,
            size="1Gi",
            access_mode="ReadWriteMany",
            storage_class=None,
            actor=actor,
            now=clock.now(),
        )
    return client, team, actor


def read_on(client, run):
    """As the collector does while pods are there: when the master has ended the operator takes the worker and its log."""
    with suppress(ClusterUnavailable):
        workload_logs.fetch_last(client, run, attempt=run.attempt_number, now=clock.now())
    return True


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_suspended_run_goes_on_from_its_last_checkpoint(bench):
    client, team, actor = bench
    spec = TrainingRunSpec.from_json(
        {
            "name": "digits",
            "image": "python:3.13",
            "command": ["python", "train.py"],
            "env": [{"name": "MODEL_DIR", "value": "/models"}, {"name": "EPOCHS", "value": "60"}],
            "source": {"files": {"train.py": SCRIPT.read_text()}, "path": "/workspace"},
            "flavor": "t4",
            "gpus_per_replica": 1,
            "cpu": "1",
            "memory": "2Gi",
            "volumes": [{"claim": "models", "path": "/models"}],
            "checkpoint": {"path": "/checkpoints", "claim": "checkpoints"},
            "time_limit_seconds": 600,
        }
    )
    run = submit_training_run(spec=spec, team=team, actor=actor, now=clock.now()).workload
    hand = Hand(client, run)

    hand.until(lambda run: run.checkpoints.exists())
    services.suspend(workload=run, actor=actor, now=clock.now())
    hand.until(lambda run: run.phase == "Suspended")
    reached = run.checkpoints.first()
    assert 0 < reached.step < 60, "it was to be stopped half-way"

    services.resume(workload=run, actor=actor, now=clock.now())
    hand.until(lambda run: run.is_final)
    assert run.phase == "Succeeded", run.message
    second = run.attempts.get(number=2)
    assert second.resumed_from == reached.path
    workload_logs.fetch_last(client, run, attempt=2, now=clock.now())
    lines = [line.text for line in workload_logs.read_lines(run, attempt=2, limit=200).lines]
    assert f"resuming after epoch {reached.step}" in lines[0]
    assert lines[1].startswith(f"epoch {reached.step + 1}/60")
    assert run.progress_reports.get(attempt=2).progress_percentage == 100


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_run_on_two_nodes_survives_the_loss_of_one(bench):
    """The demo's own request: the pods train together, a node is taken away, and they go on from the checkpoint."""
    client, team, actor = bench
    # What the watcher would have found.
    WatchCursor.objects.create(kind=kinds.PYTORCH_JOB.address, seen_at=clock.now())
    asked = {key: value for key, value in request_for_two_nodes().items() if key != "team"}
    spec = TrainingRunSpec.from_json(asked)
    run = submit_training_run(spec=spec, team=team, actor=actor, now=clock.now()).workload
    hand = Hand(client, run)

    hand.until(lambda run: run.phase == "Running" and run.checkpoints.exists())
    pods = client.list(kinds.POD, namespace=team.namespace_name).items
    (worker,) = [pod for pod in pods if pod["metadata"]["name"].endswith("-worker-0")]
    with unusable(client, worker["spec"]["nodeName"]):
        hand.until(lambda run: run.attempts.count() == 2 or run.is_final)
    hand.until(lambda run: read_on(client, run) and run.is_final)

    assert run.phase == "Succeeded", run.message
    first, second = run.attempts.order_by("number")
    kept = {point.path: point.step for point in run.checkpoints.filter(attempt=1)}
    assert second.resumed_from in kept
    assert kept[second.resumed_from] == max(kept.values()) < EPOCHS
    assert (run.retries_used, run.interruptions) == (0, 1)
    assert first.lost_seconds <= (first.ended_at - first.started_at).total_seconds()
    workload_logs.fetch_last(client, run, attempt=2, now=clock.now())
    said = [line.text for line in workload_logs.read_lines(run, attempt=2, limit=1000).lines]
    resumed = kept[second.resumed_from]
    assert f"resuming after epoch {resumed} from {second.resumed_from}" in said
    assert any(line.startswith(f"epoch {resumed + 1}/{EPOCHS} ") for line in said)
    assert {"pod 0 of 2 is here", "pod 1 of 2 is here"} <= set(said)
    assert run.progress_reports.get(attempt=2).progress_percentage == 100
