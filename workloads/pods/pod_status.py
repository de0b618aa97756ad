"""What one pod's raw JSON means: how far it has come, why it waits, why it ended. Pure.

A pod is judged in this order: how it ended well, DisruptionTarget, status.reason, init containers, containers,
PodScheduled. The words are those of kubelet, scheduler and node controllers of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cluster.labels import REVISION
from workloads.pods import pod_ends
from workloads.pods.observation import PodFacts, Stage
from workloads.pods.pod_ends import End
from workloads.pods.pod_facts import ENDED
from workloads.states import Reason

Json = Mapping[str, Any]

PULL_ERRORS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
    | {"RegistryUnavailable", "SignatureValidationFailed"}
)
START_ERRORS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"}
    | {"PreStartHookError", "PostStartHookError"}
)
NEVER_RUNS = frozenset({"CreateContainerError", "RunContainerError"})
CRASH_LOOP = "CrashLoopBackOff"
SETUP_EVENTS = frozenset(
    {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady"}
    | {"FailedPrepareDynamicResources", "FailedMapVolume"}
)
MESSAGE_LENGTH_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVerdict:
    """How one pod is judged. `stage` is `running` as soon as its containers run, ready or not."""

    stage: Stage
    reason: Reason
    message: str
    interruption: bool = False
    retryable: bool = False
    blocked: bool = False
    exit_code: int | None = None
    waiting_since: datetime | None = None


def judge(pod: Json, events: Sequence[Json] = ()) -> PodVerdict:
    """The verdict on one pod; `events` may be those of the whole namespace."""
    if _phase(pod) == "Succeeded":
        return PodVerdict(stage=Stage.SUCCEEDED, reason=Reason.COMPLETED, message="Completed.", exit_code=0)
    end = pod_ends.end_of_pod(pod)
    if end is not None:
        return _ended(end)
    if not _is_scheduled(pod):
        return _unscheduled(pod)
    return _on_node(pod, events)


def facts(pod: Json, verdict: PodVerdict) -> PodFacts:
    """The pod's facts, with the verdict's reason and sentence."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = _containers(pod)
    return PodFacts(
        uid=metadata["uid"],
        name=metadata["name"],
        node=(pod.get("spec") or {}).get("nodeName") or "",
        phase=status.get("phase") or "",
        ready=condition_is_true(pod, "Ready"),
        restarts=sum(item.get("restartCount") or 0 for item in containers),
        scheduled_at=_transition_time(pod, "PodScheduled"),
        started_at=_started_at(containers),
        finished_at=_finished_at(pod, containers),
        deletion_at=parse_time(metadata.get("deletionTimestamp")),
        exit_code=verdict.exit_code,
        reason=str(verdict.reason),
        message=verdict.message,
        resource_version=metadata.get("resourceVersion") or "",
        revision=revision_of(metadata),
        blocked=verdict.blocked,
        waiting_since=verdict.waiting_since,
        ready_at=_transition_time(pod, "Ready"),
        unready_at=_transition_time(pod, "Ready", to="False"),
    )


def revision_of(metadata: Json) -> int:
    """The revision that the labels name; 0 for none."""
    text = str((metadata.get("labels") or {}).get(REVISION) or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def parse_time(text: str | None) -> datetime | None:
    """A time of the Kubernetes API; None where it is missing or unreadable."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def condition(item: Json, kind: str) -> Json:
    """The status condition of that type; an empty mapping where there is none."""
    conditions: Sequence[Json] = (item.get("status") or {}).get("conditions") or ()
    return next((candidate for candidate in conditions if candidate.get("type") == kind), {})


def condition_is_true(item: Json, kind: str) -> bool:
    return condition(item, kind).get("status") == "True"


def latest_event(events: Sequence[Json], *, uid: str, reasons: frozenset[str]) -> str:
    """The message of the newest event about the object with this uid; "" where there is none."""
    matching = [
        event
        for event in events
        if event.get("reason") in reasons and (event.get("involvedObject") or {}).get("uid") == uid
    ]
    newest = max(matching, key=_event_time, default={})
    return shorten(newest.get("message") or "")


def shorten(text: str) -> str:
    # What a program wrote last may hold anything; PostgreSQL stores no NUL.
    text = " ".join(text.replace("\x00", "").encode(errors="replace").decode().split())
    return text if len(text) <= MESSAGE_LENGTH_MAX else text[: MESSAGE_LENGTH_MAX - 1] + "…"


def _event_time(event: Json) -> str:
    """RFC 3339 in UTC sorts as text; either field may be null."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")


def _ended(end: End) -> PodVerdict:
    return PodVerdict(
        stage=Stage.FAILED,
        reason=end.reason,
        message=shorten(end.message),
        interruption=end.interruption,
        retryable=end.retryable or end.interruption,
        exit_code=end.exit_code,
    )


def _unscheduled(pod: Json) -> PodVerdict:
    scheduled = condition(pod, "PodScheduled")
    since = parse_time(scheduled.get("lastTransitionTime")) or parse_time(
        pod["metadata"].get("creationTimestamp")
    )
    message = (
        shorten(scheduled.get("message") or "") or "Waiting for the scheduler, which has said nothing yet."
    )
    if scheduled.get("reason") == "Unschedulable":
        return PodVerdict(
            stage=Stage.SCHEDULING, reason=Reason.UNSCHEDULABLE, message=message, waiting_since=since
        )
    return PodVerdict(stage=Stage.SCHEDULING, reason=Reason.SCHEDULING, message=message, waiting_since=since)


def _on_node(pod: Json, events: Sequence[Json]) -> PodVerdict:
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        if not _init_is_done(pod, status):
            return _container(pod, status, events, init=True)
    containers = _containers(pod)
    if not containers:
        return _waiting(
            pod, Stage.INITIALIZING, Reason.INITIALIZING, "On a node, which has not reported yet."
        )
    verdicts = [_container(pod, status, events, init=False) for status in containers]
    return min(verdicts, key=_progress_of)


def _progress_of(verdict: PodVerdict) -> int:
    return (Stage.PULLING, Stage.INITIALIZING, Stage.LOADING, Stage.RUNNING).index(verdict.stage)


def _init_is_done(pod: Json, status: Json) -> bool:
    """An init container that restarts always is a sidecar: it is done as soon as it has started."""
    if (_state(status, "terminated") or {}).get("exitCode") == 0:
        return True
    for container in (pod.get("spec") or {}).get("initContainers") or ():
        if container.get("name") == status.get("name") and container.get("restartPolicy") == "Always":
            return bool(status.get("started"))
    return False


def _container(pod: Json, status: Json, events: Sequence[Json], *, init: bool) -> PodVerdict:
    waiting = _state(status, "waiting")
    if waiting is not None:
        return _waiting_container(pod, status, waiting, events)
    ended = _state(status, "terminated")
    if init and ended is not None and _phase(pod) != "Succeeded":
        return _restarting(pod, status, ended)
    if init:
        message = f"Init container {status.get('name')} is running."
        return _waiting(pod, Stage.INITIALIZING, Reason.INITIALIZING, message)
    if ended is not None and _phase(pod) != "Succeeded":
        return _restarting(pod, status, ended)
    started = _started_at([status])
    return PodVerdict(
        stage=Stage.RUNNING, reason=Reason.PROGRESSING, message="The container runs.", waiting_since=started
    )


def _waiting_container(pod: Json, status: Json, waiting: Json, events: Sequence[Json]) -> PodVerdict:
    word, text = waiting.get("reason") or "", waiting.get("message") or ""
    uid = pod["metadata"]["uid"]
    if word in PULL_ERRORS:
        pulled = latest_event(events, uid=uid, reasons=frozenset({"Failed"}))
        detail = pulled if pulled.startswith("Failed to pull image") else text
        message = f"{word}: {detail or status.get('image') or ''}"
        return _waiting(pod, Stage.PULLING, Reason.IMAGE_PULL_FAILED, message, blocked=True)
    if word == CRASH_LOOP:
        return _restarting(pod, status, _state(status, "terminated", key="lastState") or {})
    if word in START_ERRORS:
        message = f"Container {status.get('name')} has not started ({word}): {text}"
        # What its configuration lacks may still come; if the image has no such program, every retry fails.
        reason = Reason.START_ERROR if word in NEVER_RUNS else Reason.INITIALIZING
        return _waiting(pod, Stage.INITIALIZING, reason, message, blocked=True)
    setup = latest_event(events, uid=uid, reasons=SETUP_EVENTS)
    if setup:
        return _waiting(pod, Stage.INITIALIZING, Reason.INITIALIZING, setup, blocked=True)
    if word == "PodInitializing" and status in ((pod.get("status") or {}).get("initContainerStatuses") or ()):
        return _waiting(pod, Stage.INITIALIZING, Reason.INITIALIZING, "Init containers are to run first.")
    image = status.get("image") or "the image"
    return _waiting(pod, Stage.PULLING, Reason.PULLING, f"Pulling {image} and mounting volumes.")


def _restarting(pod: Json, status: Json, ended: Json) -> PodVerdict:
    """Ended, and the kubelet will start it again (or has not yet closed the pod)."""
    restarts = status.get("restartCount") or 0
    end = pod_ends.end_of_container(pod, status, ended)
    times = f"Restarted {restarts} times. " if restarts else ""
    return PodVerdict(
        stage=Stage.LOADING,
        reason=Reason.RESTARTING,
        message=shorten(f"{times}{end.message}"),
        blocked=restarts > 0,
        exit_code=end.exit_code,
        waiting_since=_transition_time(pod, "PodScheduled"),
    )


def _waiting(pod: Json, stage: Stage, reason: Reason, message: str, *, blocked: bool = False) -> PodVerdict:
    return PodVerdict(
        stage=stage,
        reason=reason,
        message=shorten(message),
        blocked=blocked,
        waiting_since=_transition_time(pod, "PodScheduled"),
    )


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _containers(pod: Json) -> list[Json]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _state(status: Json, kind: str, *, key: str = "state") -> Json | None:
    state = (status.get(key) or {}).get(kind)
    return state if isinstance(state, Mapping) else None


def _is_scheduled(pod: Json) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName")) or condition_is_true(pod, "PodScheduled")


def _transition_time(pod: Json, kind: str, *, to: str = "True") -> datetime | None:
    item = condition(pod, kind)
    return parse_time(item.get("lastTransitionTime")) if item.get("status") == to else None


def _started_at(containers: Sequence[Json]) -> datetime | None:
    """The first start of any container, as far back as its status still tells. Of one that did not start, runtimes
    report the year 1970.
    """
    states = [
        _state(status, kind, key=key) or {}
        for status in containers
        for key in ("lastState", "state")
        for kind in ("running", "terminated")
    ]
    times = (
        parse_time(state.get("startedAt"))
        for state in states
        if state.get("reason") not in pod_ends.NEVER_STARTED
    )
    return min((time for time in times if time is not None), default=None)


def _finished_at(pod: Json, containers: Sequence[Json]) -> datetime | None:
    """When the last container ended; for a pod that ended without one, its last change of condition."""
    if _phase(pod) not in ENDED:
        return None
    ends = [parse_time((_state(status, "terminated") or {}).get("finishedAt")) for status in containers]
    known = [time for time in ends if time is not None]
    if known:
        return max(known)
    changes = (
        parse_time(item.get("lastTransitionTime"))
        for item in (pod.get("status") or {}).get("conditions") or ()
    )
    return max((time for time in changes if time is not None), default=None)
