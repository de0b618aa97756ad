"""What a batch's Job and pods show, as an Observation. Pure: raw JSON in, frozen facts out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workloads.pods import pod_status
from workloads.pods.observation import Observation, PodFacts, Stage
from workloads.pods.pod_status import Json, PodVerdict
from workloads.states import Reason

ORDER = (Stage.SCHEDULING, Stage.PULLING, Stage.INITIALIZING, Stage.RUNNING)
"""How far a pod has come that has not ended."""
FAILED_CREATE = frozenset({"FailedCreate"})


def observe_batch(job: Json | None, pods: Sequence[Json], events: Sequence[Json]) -> Observation:
    """The observation of one attempt; `job` is None when the API server answered 404."""
    verdicts = [pod_status.judge(pod, events) for pod in pods]
    facts = [pod_status.facts(pod, verdict) for pod, verdict in zip(pods, verdicts, strict=True)]
    if job is None:
        return Observation(
            stage=Stage.ABSENT,
            reason=Reason.DELETED_EXTERNALLY,
            message="Its Job is not in the cluster.",
            exists=False,
            pods=tuple(facts),
        )
    return Observation(**_common(job, facts), **_told(job, verdicts, events))


def _told(job: Json, verdicts: Sequence[PodVerdict], events: Sequence[Json]) -> dict[str, Any]:
    if pod_status.condition_is_true(job, "Complete"):
        return {
            "stage": Stage.SUCCEEDED,
            "reason": Reason.COMPLETED,
            "message": "Completed.",
            "exit_code": 0,
        }
    ended = sorted((each for each in verdicts if _cause(each)), key=lambda each: not each.interruption)
    if pod_status.condition_is_true(job, "Failed"):
        return _failed(job, ended)
    if ended and ended[0].interruption:
        # On a lost node the pod stays as it is, and with it the Job.
        first = ended[0]
        return {
            "stage": Stage.DEGRADED,
            "reason": Reason.DEGRADED,
            "message": first.message,
            "interruption": True,
            "retryable": True,
            "cause": first.reason,
        }
    going = [each for each in verdicts if each.stage in ORDER]
    if not going:
        return _without_pods(job, verdicts, events)
    last = min(going, key=lambda each: ORDER.index(each.stage))
    return {
        "stage": last.stage,
        "reason": last.reason,
        "message": last.message,
        "blocked": last.blocked,
        "waiting_since": None if last.stage is Stage.RUNNING else last.waiting_since,
    }


def _cause(verdict: PodVerdict) -> bool:
    return verdict.stage is Stage.FAILED or verdict.interruption


def _failed(job: Json, ended: Sequence[PodVerdict]) -> dict[str, Any]:
    """Why, in the words of the pod that failed; in the Job's own where it has left none."""
    if not ended:
        failure = pod_status.condition(job, "Failed")
        message = pod_status.shorten(f"{failure.get('reason')}: {failure.get('message')}")
        return {
            "stage": Stage.FAILED,
            "reason": Reason.BACKOFF_LIMIT_EXCEEDED,
            "message": message,
            "retryable": True,
        }
    first = ended[0]
    return {
        "stage": Stage.FAILED,
        "reason": first.reason,
        "message": first.message,
        "interruption": first.interruption,
        "retryable": first.retryable,
        "exit_code": first.exit_code,
    }


def _without_pods(job: Json, verdicts: Sequence[PodVerdict], events: Sequence[Json]) -> dict[str, Any]:
    """None is there yet, or all have ended and the Job has yet to say so."""
    if verdicts:
        message = "Its pods have ended; waiting for its Job to say so."
        return {"stage": Stage.RUNNING, "reason": Reason.PROGRESSING, "message": message}
    refusal = pod_status.latest_event(events, uid=job["metadata"]["uid"], reasons=FAILED_CREATE)
    return {
        "stage": Stage.CREATING,
        "reason": Reason.CREATING,
        "message": refusal or "The Job is made; its pods are not there yet.",
        "blocked": bool(refusal),
        "waiting_since": pod_status.parse_time(job["metadata"].get("creationTimestamp")),
    }


def _common(job: Json, facts: Sequence[PodFacts]) -> dict[str, Any]:
    wanted = int(job["spec"].get("completions") or 1)
    scheduled, started, finished = (
        [moment for pod in facts if (moment := getattr(pod, name)) is not None]
        for name in ("scheduled_at", "started_at", "finished_at")
    )
    return {
        "deleting": bool(job["metadata"].get("deletionTimestamp")),
        "pods": tuple(facts),
        "scheduled_at": max(scheduled) if len(scheduled) >= wanted else None,
        "started_at": max(started) if len(started) >= wanted else None,
        "finished_at": max(finished) if len(finished) >= wanted else None,
        "ready_replicas": sum(pod.ready for pod in facts),
        "desired_replicas": wanted,
    }
