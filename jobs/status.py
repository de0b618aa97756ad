"""What a training run's object and pods show, as an Observation. Pure: raw JSON in, frozen facts out.

A run of several pods is a gang: it has come as far as the pod that has come least far, and ends with the first
pod that fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs import kinds
from workloads.pods import pod_status
from workloads.pods.observation import Observation, PodFacts, Stage
from workloads.pods.pod_status import Json, PodVerdict
from workloads.states import Reason

FAILED_CREATE = frozenset({"FailedCreate", "FailedCreatePod", "TrainingRuntimeNotSupported"})
"""Reasons of the events in which a controller says why it could make no pod."""
DEADLINE_WORDS = "active longer than specified deadline"
ENDED = frozenset({Stage.SUCCEEDED, Stage.FAILED, Stage.LOADING})
"""A pod that is never restarted is in `loading` only between its container's end and its own."""
_ORDER = (Stage.SCHEDULING, Stage.PULLING, Stage.INITIALIZING, Stage.RUNNING)
ENDED_LOOK_SECONDS = 5.0
"""What has ended is about to be said; a word that was missed does not hold up what waits for its GPUs until the next round."""
_AT_THE_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Pod:
    """One pod of this attempt."""

    verdict: PodVerdict
    facts: PodFacts

    @property
    def failed(self) -> bool:
        return self.verdict.stage is Stage.FAILED

    @property
    def started(self) -> bool:
        return self.facts.started_at is not None

    @property
    def end(self) -> tuple[datetime, str]:
        return self.facts.finished_at or _AT_THE_END_OF_TIME, self.facts.name


@dataclass(frozen=True, slots=True)
class _Seen:
    """The object's pods, and the facts of every pod that was given."""

    own: tuple[_Pod, ...]
    pods: tuple[PodFacts, ...]
    wanted: int
    """Pods that it asks for."""
    needed: int
    """Pods of these without which it does not run."""
    noun: str
    """The object's kind, as Kubernetes writes it."""

    @property
    def is_gang(self) -> bool:
        return self.wanted > 1

    def cause(self) -> _Pod | None:
        """The pod whose end ended the attempt; None while no pod has failed.

        A pod that its node took away comes first: what the others make of a lost peer is not their error. When a
        Job has failed its controller deletes the pods that are left, so a deleted pod comes last.
        """
        interrupted = [pod for pod in self.own if pod.verdict.interruption and not _by_hand(pod)]
        failed = [pod for pod in self.own if pod.failed]
        by_itself = [pod for pod in failed if pod.facts.deletion_at is None]
        for group in (interrupted, by_itself, failed):
            if group:
                return min(group, key=lambda pod: pod.end)
        return None

    def called(self, pod: _Pod) -> str:
        """Which of several pods a message is about."""
        return f"Pod {pod.facts.name}: " if self.is_gang else ""


def _by_hand(pod: _Pod) -> bool:
    return pod.verdict.reason is Reason.DELETED_EXTERNALLY


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
            message="Its object is not in the cluster.",
            exists=False,
            pods=seen.pods,
        )
    if pod_status.condition_is_true(job, kinds.of_object(job).succeeded):
        return _observation(
            job, seen, stage=Stage.SUCCEEDED, reason=Reason.COMPLETED, message="Completed.", exit_code=0
        )
    if pod_status.condition_is_true(job, "Failed"):
        return _failed(job, seen)
    return _live(job, seen, events)


def _look_at(job: Json | None, pods: Sequence[Json], events: Sequence[Json]) -> _Seen:
    every, own = [], []
    for pod in pods:
        verdict = pod_status.judge(pod, events)
        facts = pod_status.facts(pod, verdict)
        every.append(facts)
        if job is not None and _belongs(pod, job):
            own.append((_age_key(pod), _Pod(verdict, facts)))
    wanted, needed = (1, 1) if job is None else (kinds.pods_wanted(job), kinds.pods_needed(job))
    own.sort(key=lambda entry: entry[0])
    # A run of one pod has more than one only while an older one is going.
    kept = own[-1:] if wanted == 1 else own
    noun = "Job" if job is None else str(job["kind"])
    return _Seen(tuple(pod for _, pod in kept), tuple(every), wanted, needed, noun)


def _belongs(pod: Json, job: Json) -> bool:
    """Whether the pod is this object's. Pods of a JobSet, or of the Job that launches an MPIJob, belong to objects
    between; their labels, by which they were chosen, are those of the attempt.
    """
    owners = pod["metadata"].get("ownerReferences") or ()
    if any(owner.get("uid") == job["metadata"]["uid"] for owner in owners):
        return True
    return job["kind"] != "Job" and any(owner.get("kind") == "Job" for owner in owners)


def _age_key(pod: Json) -> tuple[str, str]:
    """Times of the API are RFC 3339 in UTC, so they sort as text."""
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _failed(job: Json, seen: _Seen) -> Observation:
    failure = pod_status.condition(job, "Failed")
    word, text = failure.get("reason") or "", pod_status.shorten(failure.get("message") or "")
    if word == "DeadlineExceeded" or DEADLINE_WORDS in text:
        message = f"The {seen.noun}'s own deadline passed: {text}"
        return _observation(job, seen, stage=Stage.FAILED, reason=Reason.DEADLINE_EXCEEDED, message=message)
    cause = seen.cause()
    by_pods = _for_its_pods(job, word)
    fewer = by_pods and len(seen.own) < seen.wanted
    gone = fewer or (by_pods and any(pod.facts.deletion_at for pod in seen.own))
    explained = cause is not None and (cause.failed or cause.verdict.interruption)
    if cause is not None and explained and not (fewer and _by_hand(cause)):
        verdict = cause.verdict
        return _observation(
            job,
            seen,
            stage=Stage.FAILED,
            reason=verdict.reason,
            message=f"{seen.called(cause)}{verdict.message}",
            interruption=verdict.interruption,
            retryable=verdict.retryable,
            exit_code=verdict.exit_code,
        )
    if gone:
        # Pods that failed by themselves are kept; only someone else removes them.
        what = "A pod was" if seen.is_gang else "The pod was"
        return _observation(
            job,
            seen,
            stage=Stage.FAILED,
            reason=Reason.DELETED_EXTERNALLY,
            message=f"{what} deleted before its end was seen. {text}",
            interruption=True,
            retryable=True,
        )
    message = f"{word}: {text}"
    return _observation(
        job, seen, stage=Stage.FAILED, reason=Reason.BACKOFF_LIMIT_EXCEEDED, message=message, retryable=True
    )


def _for_its_pods(job: Json, word: str) -> bool:
    """Whether the object has failed because a pod did, and not because it could make none."""
    if job["kind"] == "Job":
        return word == "BackoffLimitExceeded"
    counts = ((job.get("status") or {}).get("replicaStatuses") or {}).values()
    return any(count.get("failed") for count in counts)


def _live(job: Json, seen: _Seen, events: Sequence[Json]) -> Observation:
    if not seen.own:
        return _without_pod(job, seen, events)
    cause = seen.cause()
    if cause is not None and cause.verdict.interruption:
        return _being_interrupted(job, seen, cause)
    going_on = [pod for pod in seen.own if pod.verdict.stage not in ENDED]
    if cause is not None or not going_on:
        ended = cause or max(seen.own, key=lambda pod: pod.end)
        have = (
            "A pod has" if seen.is_gang and going_on else "Its pods have" if seen.is_gang else "The pod has"
        )
        message = f"{have} ended; waiting for its {seen.noun} to say so. {seen.called(ended)}{ended.verdict.message}"
        return _observation(
            job,
            seen,
            stage=Stage.RUNNING,
            reason=Reason.PROGRESSING,
            message=message,
            look_again_seconds=ENDED_LOOK_SECONDS,
        )
    if _is_short(job, seen, going_on):
        return _incomplete(job, seen, events)
    return _together(job, seen, going_on)


def _is_short(job: Json, seen: _Seen, going_on: Sequence[_Pod]) -> bool:
    """Whether a pod is missing that should be there: of those that wait for the others only once these run."""
    if all(pod.verdict.stage is Stage.RUNNING for pod in going_on):
        return len(seen.own) < seen.needed
    return len(seen.own) < seen.needed - kinds.pods_made_last(job)


def _together(job: Json, seen: _Seen, going_on: Sequence[_Pod]) -> Observation:
    """The run is as far as the last of the pods that it cannot do without."""
    farthest = sorted(
        going_on, key=lambda pod: (_ORDER.index(pod.verdict.stage), pod.facts.name), reverse=True
    )
    ended = len(seen.own) - len(going_on)
    last = farthest[max(1, min(len(farthest), seen.needed - ended)) - 1]
    verdict = last.verdict
    return _observation(
        job,
        seen,
        stage=verdict.stage,
        reason=_reason(seen, verdict),
        message=" ".join(_words(seen, last)),
        blocked=verdict.blocked,
        waiting_since=None if verdict.stage is Stage.RUNNING else verdict.waiting_since,
    )


def _reason(seen: _Seen, verdict: PodVerdict) -> Reason:
    """Pods that run already wait for the others, unless something is wrong with one of these."""
    waits = verdict.stage in {Stage.PULLING, Stage.INITIALIZING} and not verdict.blocked
    return Reason.GANG_WAITING if waits and any(pod.started for pod in seen.own) else verdict.reason


def _words(seen: _Seen, last: _Pod) -> Iterator[str]:
    """How many of a gang are as far as they all have to come, and what the last one says itself."""
    if seen.is_gang:
        yield _counted(seen, last.verdict.stage)
    leaving = "The pod is being deleted. " if last.facts.deletion_at else ""
    if leaving or not seen.is_gang or last.verdict.stage is not Stage.RUNNING:
        yield f"{seen.called(last)}{leaving}{last.verdict.message}"


def _counted(seen: _Seen, stage: Stage) -> str:
    if stage is Stage.SCHEDULING:
        return f"{sum(bool(pod.facts.node) for pod in seen.own)} of {seen.wanted} pods have a node."
    ended = sum(pod.verdict.stage in ENDED for pod in seen.own)
    done = f", {ended} of them to the end" if ended else ""
    return f"{sum(pod.started for pod in seen.own)} of {seen.wanted} pods have started{done}."


def _without_pod(job: Json, seen: _Seen, events: Sequence[Json]) -> Observation:
    pods = "its pods are" if seen.is_gang else "its pod is"
    return _making(job, seen, events, f"The {seen.noun} is made; {pods} not there yet.")


def _incomplete(job: Json, seen: _Seen, events: Sequence[Json]) -> Observation:
    return _making(job, seen, events, f"{len(seen.own)} of {seen.wanted} pods are made.")


def _making(job: Json, seen: _Seen, events: Sequence[Json], message: str) -> Observation:
    refusal = pod_status.latest_event(events, uid=job["metadata"]["uid"], reasons=FAILED_CREATE)
    if _suspended(job):
        refusal, message = "", f"The {seen.noun} is suspended in the cluster, not by the portal."
    return _observation(
        job,
        seen,
        stage=Stage.CREATING,
        reason=Reason.CREATING,
        message=refusal or message,
        blocked=bool(refusal),
        waiting_since=pod_status.parse_time(job["metadata"].get("creationTimestamp")),
    )


def _suspended(job: Json) -> bool:
    value: Any = job
    for key in kinds.of_object(job).suspend_path:
        value = (value or {}).get(key)
    return bool(value)


def _being_interrupted(job: Json, seen: _Seen, cause: _Pod) -> Observation:
    """On a lost node the pod stays like this for ever, and with it the Job: the caller must not wait for `failed`."""
    started = any(pod.started for pod in seen.own)
    return _observation(
        job,
        seen,
        stage=Stage.DEGRADED if started else Stage.SCHEDULING,
        reason=Reason.DEGRADED if started else Reason.SCHEDULING,
        message=f"{seen.called(cause)}{cause.verdict.message}",
        interruption=True,
        retryable=True,
        cause=cause.verdict.reason,
        exit_code=cause.verdict.exit_code,
    )


def _observation(job: Json, seen: _Seen, **status: Any) -> Observation:
    started = [pod.facts.started_at for pod in seen.own if pod.facts.started_at is not None]
    finished = [pod.facts.finished_at for pod in seen.own if pod.facts.finished_at is not None]
    scheduled = [pod.facts.scheduled_at for pod in seen.own if pod.facts.scheduled_at is not None]
    facts: Mapping[str, Any] = {
        "deleting": bool(job["metadata"].get("deletionTimestamp")),
        "started_at": _once_enough(seen, started),
        "finished_at": max(finished) if finished and len(finished) == len(seen.own) else None,
        "scheduled_at": _once_enough(seen, scheduled),
        "pods": seen.pods,
        "ready_replicas": sum(pod.facts.ready for pod in seen.own),
        "desired_replicas": seen.wanted,
    }
    return Observation(**facts, **status)


def _once_enough(seen: _Seen, times: list[datetime]) -> datetime | None:
    """When as many as it needs had come so far; None before."""
    return sorted(times)[seen.needed - 1] if len(times) >= seen.needed else None
