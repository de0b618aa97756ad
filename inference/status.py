"""What an endpoint's Deployment and pods show, as an Observation. Pure: raw JSON in, frozen facts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from inference.autoscaling.scaler_status import lacks_scaler, scaler_of
from workloads.pods import pod_status
from workloads.pods.observation import Observation, PodFacts, RolloutFacts, ScalerFacts, Stage
from workloads.pods.pod_status import Json, PodVerdict
from workloads.states import Reason

SCALER_LOOK_SECONDS = 60.0
"""The metric of an endpoint with a scaler is noted at least this often."""
_ORDER = (Stage.SCHEDULING, Stage.PULLING, Stage.INITIALIZING, Stage.LOADING)


@dataclass(frozen=True, slots=True)
class _Counts:
    """`status` of the Deployment, with what is missing as 0."""

    desired: int
    total: int
    updated: int
    ready: int
    observed: bool
    """Whether its controller has seen the newest spec."""

    @classmethod
    def of(cls, deployment: Json) -> _Counts:
        status, metadata = deployment.get("status") or {}, deployment["metadata"]
        desired = (deployment.get("spec") or {}).get("replicas")
        return cls(
            desired=1 if desired is None else desired,
            total=status.get("replicas") or 0,
            updated=status.get("updatedReplicas") or 0,
            ready=status.get("readyReplicas") or 0,
            observed=(status.get("observedGeneration") or 0) >= (metadata.get("generation") or 0),
        )

    @property
    def rolled_out(self) -> bool:
        return self.observed and self.total == self.updated == self.desired


def observe_endpoint(
    deployment: Json | None,
    pods: Sequence[Json],
    events: Sequence[Json] = (),
    companions: Sequence[Json] = (),
) -> Observation:
    """The observation of one endpoint.

    `deployment` is None when the API server answered 404; `pods` are all pods with the workload's label;
    `events` (core/v1) only make messages better; `companions` are its scaler's objects. An endpoint never ends by
    itself, so the stage is never `succeeded` or `failed`: what cannot start is `blocked`, and the caller's deadlines
    decide.
    """
    judged = [(pod, pod_status.judge(pod, events)) for pod in pods]
    facts = tuple(pod_status.facts(pod, verdict) for pod, verdict in judged)
    if deployment is None:
        return Observation(
            stage=Stage.ABSENT,
            reason=Reason.DELETED_EXTERNALLY,
            message="The Deployment is not in the cluster.",
            exists=False,
            pods=facts,
        )
    counts = _Counts.of(deployment)
    if not (deployment.get("status") or {}).get("observedGeneration"):
        # Its controller has not spoken yet, and pods that it takes over answer meanwhile.
        counts = replace(counts, ready=sum(pod.ready for pod in facts))
    waiting = [_of_endpoint(pod, verdict) for pod, verdict in judged if _still_comes(pod, verdict)]
    scaler = scaler_of(deployment, companions)
    if scaler is not None and _is_asleep(counts, facts):
        status = _asleep(scaler)
    elif counts.ready:
        status = _serving(counts, waiting, deployment)
    else:
        status = _silent(counts, waiting, deployment)
    seen = _observation(deployment, counts, facts, _with_scaler(status, scaler), scaler)
    return replace(seen, incomplete=not seen.deleting and lacks_scaler(deployment, companions))


def _is_asleep(counts: _Counts, pods: Sequence[PodFacts]) -> bool:
    """Whether no replica is wanted and none is left."""
    return counts.desired == counts.total == 0 and counts.observed and not any(pod.alive for pod in pods)


def _asleep(scaler: ScalerFacts) -> dict[str, Any]:
    if scaler.paused:
        message = "No replica runs, and its scaler is paused: resume the scaler so that a request wakes it."
    else:
        message = "No replica runs, because nobody calls it. A request through the gateway wakes it."
    return {"stage": Stage.ASLEEP, "reason": Reason.SCALED_TO_ZERO, "message": message}


def _with_scaler(status: Mapping[str, Any], scaler: ScalerFacts | None) -> dict[str, Any]:
    """The same status, unless the worst problem is that the scaler cannot do its work."""
    if scaler is None or not scaler.failure:
        return dict(status)
    if status["stage"] is Stage.ASLEEP:
        # It still sleeps, and a call still wakes it.
        return {**status, "message": f"{status['message']} {scaler.failure}"}
    if status["stage"] is not Stage.READY:
        return dict(status)
    runs = " The fallback replicas run meanwhile." if scaler.falls_back else ""
    return {
        "stage": Stage.DEGRADED,
        "reason": Reason.SCALER_FAILED,
        "message": f"{scaler.failure}{runs} {status['message']}",
    }


def _still_comes(pod: Json, verdict: PodVerdict) -> bool:
    """Whether the pod is on its way to being ready."""
    if pod["metadata"].get("deletionTimestamp") or verdict.stage in {Stage.FAILED, Stage.SUCCEEDED}:
        return False
    return not pod_status.condition_is_true(pod, "Ready")


def _of_endpoint(pod: Json, verdict: PodVerdict) -> PodVerdict:
    """A container that runs and is not ready is loading its model."""
    if verdict.stage is not Stage.RUNNING:
        return verdict
    text = pod_status.condition(pod, "ContainersReady").get("message") or "the container is not ready yet"
    return PodVerdict(
        stage=Stage.LOADING,
        reason=Reason.LOADING,
        message=f"The container runs and is loading: {text}.",
        waiting_since=verdict.waiting_since,
    )


def _serving(counts: _Counts, waiting: Sequence[PodVerdict], deployment: Json) -> dict[str, Any]:
    """At least one replica answers."""
    numbers = f"{counts.ready} of {counts.desired} replicas are ready"
    if counts.rolled_out and counts.ready >= counts.desired:
        return {"stage": Stage.READY, "reason": Reason.READY, "message": f"{numbers}."}
    message = f"{numbers}; {_what_the_others_do(waiting, deployment)}"
    blocked = _is_stuck(deployment) or any(verdict.blocked for verdict in waiting)
    short = counts.ready < counts.desired
    if short and counts.observed and counts.updated >= counts.total:
        return {"stage": Stage.DEGRADED, "reason": Reason.DEGRADED, "message": message, "blocked": blocked}
    message = f"{numbers}, {counts.updated} of {counts.total} pods are new; {_what_the_others_do(waiting, deployment)}"
    return {"stage": Stage.UPDATING, "reason": Reason.UPDATING, "message": message, "blocked": blocked}


def _silent(counts: _Counts, waiting: Sequence[PodVerdict], deployment: Json) -> dict[str, Any]:
    """No replica answers: the stage is that of the pod that has come furthest."""
    if counts.desired == 0 and counts.total == 0 and counts.observed:
        return {"stage": Stage.READY, "reason": Reason.READY, "message": "No replicas are wanted."}
    if not waiting:
        refusal = pod_status.condition(deployment, "ReplicaFailure").get("message") or ""
        return {
            "stage": Stage.CREATING,
            "reason": Reason.CREATING,
            "message": pod_status.shorten(refusal) or "The Deployment is made; its pods are not there yet.",
            "blocked": bool(refusal),
            "waiting_since": pod_status.parse_time(deployment["metadata"].get("creationTimestamp")),
        }
    furthest = max(waiting, key=lambda verdict: _ORDER.index(verdict.stage))
    numbers = f"0 of {counts.desired} replicas are ready"
    return {
        "stage": furthest.stage,
        "reason": furthest.reason,
        "message": f"{numbers}; {_what_the_others_do(waiting, deployment)}",
        "blocked": furthest.blocked or _is_stuck(deployment),
        "waiting_since": furthest.waiting_since,
        "exit_code": furthest.exit_code,
    }


def _what_the_others_do(waiting: Sequence[PodVerdict], deployment: Json) -> str:
    """Numbers by reason, then the sentence of the pod that has come least far, or the controller's refusal."""
    refusal = pod_status.condition(deployment, "ReplicaFailure")
    if refusal.get("status") == "True":
        return pod_status.shorten(refusal.get("message") or "")
    if not waiting:
        return "the others are on their way."
    numbers = Counter(str(verdict.reason) for verdict in waiting)
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(numbers.items()))
    worst = min(waiting, key=lambda verdict: (not verdict.blocked, _ORDER.index(verdict.stage)))
    return pod_status.shorten(f"{listed}. {worst.message}")


def _is_stuck(deployment: Json) -> bool:
    return pod_status.condition(deployment, "Progressing").get("reason") == "ProgressDeadlineExceeded"


def _observation(
    deployment: Json,
    counts: _Counts,
    pods: tuple[PodFacts, ...],
    status: Mapping[str, Any],
    scaler: ScalerFacts | None,
) -> Observation:
    scheduled = [pod.scheduled_at for pod in pods if pod.scheduled_at is not None]
    started = [pod.started_at for pod in pods if pod.started_at is not None]
    return Observation(
        **status,
        deleting=bool(deployment["metadata"].get("deletionTimestamp")),
        started_at=min(started, default=None),
        scheduled_at=min(scheduled, default=None),
        pods=pods,
        ready_replicas=counts.ready,
        desired_replicas=counts.desired,
        scaler=scaler,
        look_again_seconds=SCALER_LOOK_SECONDS if scaler is not None else None,
        rollout=_rollout(deployment, counts, pods),
    )


def _completed_at(deployment: Json, pods: Sequence[PodFacts]) -> datetime | None:
    """When the last of the pods was ready and the Deployment had no others; it remembers that as long as it is so."""
    progress = pod_status.condition(deployment, "Progressing")
    done = progress.get("lastUpdateTime") if progress.get("reason") == "NewReplicaSetAvailable" else None
    times = [pod_status.parse_time(done), *(pod.ready_at for pod in pods)]
    return max((time for time in times if time is not None), default=None)


def _rollout(deployment: Json, counts: _Counts, pods: tuple[PodFacts, ...]) -> RolloutFacts:
    """How far the pods of the Deployment's template are, by the revision that their label names."""
    revision = pod_status.revision_of(deployment["spec"].get("template", {}).get("metadata", {}))
    staying = [pod for pod in pods if pod.alive and pod.deletion_at is None]
    updated = [pod for pod in staying if pod.revision == revision]
    ready = sum(pod.ready for pod in updated)
    refusal = pod_status.condition(deployment, "ReplicaFailure")
    refused = counts.observed and refusal.get("status") == "True"
    complete = counts.rolled_out and ready >= counts.desired and len(staying) == len(updated)
    return RolloutFacts(
        revision=revision,
        updated=len(updated),
        ready=ready,
        total=counts.desired,
        old=len(staying) - len(updated),
        complete=complete,
        completed_at=_completed_at(deployment, updated) if complete else None,
        stuck=counts.observed and _is_stuck(deployment),
        refused=pod_status.shorten(refusal.get("message") or "") if refused else "",
        refused_at=pod_status.parse_time(refusal.get("lastTransitionTime")) if refused else None,
    )
