"""Training runs and endpoints with all their rows, made by the services that make them in earnest."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from controller.reconcile.run_tokens import digest, run_token
from costs.ledger.services import record_usage
from foundation import clock
from inference.services import deploy_endpoint
from inference.specs import EndpointSpec
from jobs.outputs.services import report_output
from jobs.services import submit_training_run
from jobs.specs import TrainingRunSpec
from teams.actors import Actor
from teams.models import Team, User
from workloads import services
from workloads.models import Attempt, PodRecord, ResourceFlavor, Workload
from workloads.reports import report_checkpoint, report_progress
from workloads.states import Phase, Reason

_numbers = count(1)
_TO_RUNNING = (
    (Phase.ADMITTED, Reason.CREATING),
    (Phase.STARTING, Reason.PULLING),
    (Phase.RUNNING, Reason.PROGRESSING),
)
# The shortest way from Queued to each phase that the tests put a workload in.
_WAYS = {
    Phase.QUEUED: (),
    Phase.ADMITTED: _TO_RUNNING[:1],
    Phase.STARTING: _TO_RUNNING[:2],
    Phase.RUNNING: _TO_RUNNING,
    Phase.SUCCEEDED: (*_TO_RUNNING, (Phase.SUCCEEDED, Reason.COMPLETED)),
}


def run_body(team: str = "", **values: Any) -> dict[str, Any]:
    """The body of a small CPU run; with `flavor`, of one GPU."""
    body = {
        "name": f"run-{next(_numbers)}",
        "image": "example.org/train:1",
        "command": ["python", "train.py"],
    }
    return ({"team": team} if team else {}) | body | values


def endpoint_body(team: str = "", **values: Any) -> dict[str, Any]:
    """The body of a small CPU endpoint; with `flavor`, of one GPU."""
    body = {"name": f"endpoint-{next(_numbers)}", "image": "example.org/serve:1", "command": ["serve"]}
    return ({"team": team} if team else {}) | body | values


def make_run(
    team: Team,
    owner: User,
    *,
    flavor: ResourceFlavor | None = None,
    phase: Phase = Phase.QUEUED,
    **spec: Any,
) -> Workload:
    """A training run in `phase`; its rows say so, no cluster is asked."""
    body = run_body(**_of(flavor), **spec)
    run = submit_training_run(spec=TrainingRunSpec.from_json(body), **_by(team, owner))
    return move(run.workload, phase)


def make_endpoint(
    team: Team,
    owner: User,
    *,
    flavor: ResourceFlavor | None = None,
    phase: Phase = Phase.QUEUED,
    **spec: Any,
) -> Workload:
    """An endpoint in `phase`; its rows say so, no cluster is asked."""
    body = endpoint_body(**_of(flavor), **spec)
    endpoint = deploy_endpoint(spec=EndpointSpec.from_json(body), **_by(team, owner))
    return move(endpoint.workload, phase)


def _of(flavor: ResourceFlavor | None) -> dict[str, str]:
    return {"flavor": flavor.name} if flavor else {}


def _by(team: Team, owner: User) -> dict[str, Any]:
    return {"team": team, "actor": Actor.of_user(owner), "now": clock.now()}


def move(workload: Workload, phase: Phase) -> Workload:
    """The workload, moved along the state machine to `phase`."""
    for to, reason in _WAYS[phase]:
        fitting = Reason.READY if workload.kind == "endpoint" and to is Phase.RUNNING else reason
        services.transition(
            workload, to=to, reason=fitting, message=f"{workload.name}: {to}", actor="tests", now=clock.now()
        )
    return workload


def make_attempt(workload: Workload) -> tuple[Attempt, str]:
    """The next attempt, open, and the token that its pods report with."""
    token = run_token(workload, attempt=workload.attempt_number + 1)
    attempt = services.start_attempt(
        workload, object_name=f"{workload.name}-x", token_digest=digest(token), now=clock.now()
    )
    return attempt, token


def make_pod(workload: Workload, *, units: int = 0, minutes: int = 0, **values: Any) -> PodRecord:
    """A pod that was scheduled `minutes` ago and, if that is more than 0, ended now; its use is recorded."""
    now = clock.now().replace(microsecond=0)  # as the API server writes times
    times = {"scheduled_at": now - timedelta(minutes=minutes), "finished_at": now} if minutes else {}
    pod = PodRecord.objects.create(
        **{
            "uid": f"uid-{uuid4()}",
            "namespace": workload.team.namespace_name,
            "name": f"{workload.name}-pod",
            "workload": workload,
            "attempt": max(1, workload.attempt_number),
            "resource_version": "1",
            "phase": "Running",
            "node_name": "a100-0",
            "units": units,
            "created_at": now - timedelta(minutes=minutes),
            **times,
            **values,
        }
    )
    record_usage(pod, now=now)
    return pod


def make_reports(attempt: Attempt, *, path: str = "/checkpoints/1") -> None:
    """A checkpoint, an output and a progress report of the attempt."""
    report_checkpoint(attempt=attempt, step=1, path=path, now=clock.now())
    report_output(attempt=attempt, path=f"{path}/best.pt", size_bytes=1, metrics={}, now=clock.now())
    report_progress(
        attempt=attempt,
        progress_percentage=50.0,
        estimated_remaining_seconds=60,
        metrics={"loss": 0.5},
        now=clock.now(),
    )
