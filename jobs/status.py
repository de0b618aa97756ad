"""What a training run's Job and pods show, as an Observation. Pure: raw JSON in, frozen facts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller import podstatus
from controller.observation import Observation, PodFacts, Stage
from controller.podstatus import Json, Verdict
from workloads.states import Reason

FAILED_CREATE = frozenset({"FailedCreate"})


@dataclass(frozen=True, slots=True)
class _Seen:
    """The Job's newest pod with its verdict, and the facts of every pod that was given."""

    verdict: Verdict | None
    newest: PodFacts | None
    pods: tuple[PodFacts, ...]


def observe_training_run(job: Json | None, pods: Sequence[Json], events: Sequence[Json] = ()) -> Observation:
    """The observation of one attempt.

    `job` is None when the API server answered 404. `pods` may hold those of earlier attempts: they count as
    alive until they are gone, and say nothing about this attempt. `events` (core/v1) only make messages better.
    """
    seen = _look_at(job, pods, events)
    if job is None:
        return Observation(
            stage=Stage.ABSENT,
            reason=Reason.DELETED_EXTERNALLY,
            message="The Job is not in the cluster.",
            exists=False,
            pods=seen.pods,
        )
    if podstatus.condition_is_true(job, "Complete"):
        return _observation(
            job, seen, stage=Stage.SUCCEEDED, reason=Reason.COMPLETED, message="Completed.", exit_code=0
        )
    if podstatus.condition_is_true(job, "Failed"):
        return _failed(job, seen)
    return _live(job, seen, events)


def _look_at(job: Json | None, pods: Sequence[Json], events: Sequence[Json]) -> _Seen:
    judged = [(pod, podstatus.judge(pod, events)) for pod in pods]
    every = tuple(podstatus.facts(pod, verdict) for pod, verdict in judged)
    own = [index for index, (pod, _) in enumerate(judged) if job is not None and _belongs(pod, job)]
    newest = max(own, key=lambda index: _age_key(judged[index][0]), default=None)
    if newest is None:
        return _Seen(None, None, every)
    return _Seen(judged[newest][1], every[newest], every)


def _belongs(pod: Json, job: Json) -> bool:
    uid = job["metadata"]["uid"]
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())


def _age_key(pod: Json) -> tuple[str, str]:
    """Times of the API are RFC 3339 in UTC, so they sort as text."""
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _failed(job: Json, seen: _Seen) -> Observation:
    failure = podstatus.condition(job, "Failed")
    word, text = failure.get("reason") or "", podstatus.shorten(failure.get("message") or "")
    if word == "DeadlineExceeded":
        message = f"The Job's own deadline passed: {text}"
        return _observation(job, seen, stage=Stage.FAILED, reason=Reason.DEADLINE_EXCEEDED, message=message)
    verdict = seen.verdict
    if verdict is not None and verdict.stage is Stage.FAILED:
        return _observation(
            job,
            seen,
            stage=Stage.FAILED,
            reason=verdict.reason,
            message=verdict.message,
            interruption=verdict.interruption,
            retryable=verdict.retryable,
            exit_code=verdict.exit_code,
        )
    if verdict is None and word == "BackoffLimitExceeded":
        # A Job keeps the pods that failed by themselves; only someone else removes them.
        message = f"The pod was deleted before its end was seen. {text}"
        return _observation(
            job,
            seen,
            stage=Stage.FAILED,
            reason=Reason.DELETED_EXTERNALLY,
            message=message,
            interruption=True,
            retryable=True,
        )
    message = f"{word}: {text}"
    return _observation(
        job, seen, stage=Stage.FAILED, reason=Reason.BACKOFF_LIMIT_EXCEEDED, message=message, retryable=True
    )


def _live(job: Json, seen: _Seen, events: Sequence[Json]) -> Observation:
    verdict = seen.verdict
    if verdict is None:
        return _without_pod(job, seen, events)
    if verdict.interruption:
        return _being_interrupted(job, seen, verdict)
    if verdict.stage in {Stage.SUCCEEDED, Stage.FAILED, Stage.LOADING}:
        message = f"The pod has ended; waiting for its Job to say so. {verdict.message}"
        return _observation(job, seen, stage=Stage.RUNNING, reason=Reason.PROGRESSING, message=message)
    leaving = "The pod is being deleted. " if seen.newest is not None and seen.newest.deletion_at else ""
    return _observation(
        job,
        seen,
        stage=verdict.stage,
        reason=verdict.reason,
        message=f"{leaving}{verdict.message}",
        blocked=verdict.blocked,
        waiting_since=None if verdict.stage is Stage.RUNNING else verdict.waiting_since,
    )


def _without_pod(job: Json, seen: _Seen, events: Sequence[Json]) -> Observation:
    refusal = podstatus.latest_event(events, uid=job["metadata"]["uid"], reasons=FAILED_CREATE)
    message = refusal or "The Job is made; its pod is not there yet."
    if (job.get("spec") or {}).get("suspend"):
        message = "The Job is suspended in the cluster, not by the portal."
    return _observation(
        job,
        seen,
        stage=Stage.CREATING,
        reason=Reason.CREATING,
        message=message,
        blocked=bool(refusal),
        waiting_since=podstatus.parse_time(job["metadata"].get("creationTimestamp")),
    )


def _being_interrupted(job: Json, seen: _Seen, verdict: Verdict) -> Observation:
    """On a lost node the pod stays like this for ever, and with it the Job: the caller must not wait for `failed`."""
    started = seen.newest is not None and seen.newest.started_at is not None
    return _observation(
        job,
        seen,
        stage=Stage.DEGRADED if started else Stage.SCHEDULING,
        reason=Reason.DEGRADED if started else Reason.SCHEDULING,
        message=verdict.message,
        interruption=True,
        retryable=True,
        cause=verdict.reason,
        exit_code=verdict.exit_code,
    )


def _observation(job: Json, seen: _Seen, **told: Any) -> Observation:
    newest = seen.newest
    scheduled = [pod.scheduled_at for pod in seen.pods if pod.scheduled_at is not None]
    facts: Mapping[str, Any] = {
        "deleting": bool(job["metadata"].get("deletionTimestamp")),
        "started_at": newest.started_at if newest else None,
        "finished_at": newest.finished_at if newest else None,
        "first_scheduled_at": min(scheduled, default=None),
        "pods": seen.pods,
        "ready_replicas": int(newest is not None and newest.ready),
        "desired_replicas": 1,
    }
    return Observation(**facts, **told)
