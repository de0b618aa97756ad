"""What the pods of a new revision say about it: on its way, live, at fault, or without room. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from workloads.pods.observation import PodFacts, RolloutFacts
from workloads.states import Reason

REFUSED_SECONDS = 60
"""How long the cluster may refuse a revision's pods before that is its fault: a webhook may be away for a moment."""
QUOTA_WORDS = "exceeded quota"
"""How the API server says that a namespace's ResourceQuota is used up, which no revision is to blame for."""
_NOT_PLACED = frozenset({Reason.UNSCHEDULABLE.value, Reason.SCHEDULING.value})


class RolloutStep(StrEnum):
    """What the history tells of a rollout; tokens as a Reason is one, but they move no phase."""

    STARTED = "RolloutStarted"
    SURGE_CLAIMED = "SurgeClaimed"
    WAITS = "RolloutWaits"
    PROGRESS = "RolloutProgress"
    LIVE = "RevisionLive"
    FAILED = "RevisionFailed"
    ROLLED_BACK = "RolledBack"
    TAKEN_BACK = "RolloutTakenBack"
    IN_PLACE = "RolloutInPlace"


class RolloutOutcome(StrEnum):
    GOING = "going"
    LIVE = "live"
    FAILED = "failed"
    NO_ROOM = "no-room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long things may take, in seconds."""

    load: int
    image_pull: int
    schedule: int
    downtime: int | None = None
    """How long no replica may answer; None where no limit is set."""


@dataclass(frozen=True, slots=True)
class Judgement:
    outcome: RolloutOutcome
    message: str = ""
    look_in: float | None = None
    """Seconds until another look may say otherwise, though nothing happens meanwhile."""


def judge(
    rollout: RolloutFacts,
    pods: Sequence[PodFacts],
    bounds: Bounds,
    *,
    now: datetime,
    began: datetime | None = None,
    down_since: datetime | None = None,
) -> Judgement:
    """How the revision fares whose pods the endpoint's object asks for; some pods may be older than its start.

    A revision without room is not at fault: a pod that no node takes says nothing about it.
    """
    if rollout.complete and rollout.total:
        return Judgement(RolloutOutcome.LIVE)
    findings = [*_of_pods(rollout, pods, bounds, began), *_of_cluster(rollout, bounds)]
    if bounds.downtime and down_since is not None:
        message = f"No replica answered for {bounds.downtime} seconds, the most that was announced."
        findings.append(_Finding(down_since, bounds.downtime, RolloutOutcome.FAILED, message))
    due = [finding for finding in findings if finding.left(now) <= 0]
    for outcome in (RolloutOutcome.FAILED, RolloutOutcome.NO_ROOM):
        finding = next((finding for finding in due if finding.outcome is outcome), None)
        if finding is not None:
            return Judgement(outcome, finding.message)
    if rollout.stuck:
        homeless = any(pod.reason in _NOT_PLACED for pod in _new(rollout, pods))
        message = "Its pods made no progress within the Deployment's deadline."
        return Judgement(RolloutOutcome.NO_ROOM if homeless else RolloutOutcome.FAILED, message)
    return Judgement(
        RolloutOutcome.GOING, look_in=min((finding.left(now) for finding in findings), default=None)
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    """Something that is borne for a while."""

    since: datetime
    seconds: int
    outcome: RolloutOutcome
    message: str

    def left(self, now: datetime) -> float:
        return (self.since + timedelta(seconds=self.seconds) - now).total_seconds()


def _new(rollout: RolloutFacts, pods: Sequence[PodFacts]) -> list[PodFacts]:
    """Its pods that are still to become ready."""
    return [
        pod
        for pod in pods
        if pod.revision == rollout.revision and pod.alive and pod.deletion_at is None and not pod.ready
    ]


def _of_pods(
    rollout: RolloutFacts, pods: Sequence[PodFacts], bounds: Bounds, began: datetime | None
) -> Iterator[_Finding]:
    for pod in _new(rollout, pods):
        since = pod.scheduled_at or pod.waiting_since
        if since is None:
            continue
        # A pod that has served and restarts loads once more, and has as long for it as it had at first.
        since = max(since, began or since, pod.unready_at or since)
        if pod.reason in _NOT_PLACED:
            message = f"No node took pod {pod.name} within {bounds.schedule} seconds. {pod.message}"
            yield _Finding(pod.waiting_since or since, bounds.schedule, RolloutOutcome.NO_ROOM, message)
        elif pod.reason == Reason.IMAGE_PULL_FAILED.value:
            message = f"Its image could not be pulled within {bounds.image_pull} seconds. {pod.message}"
            yield _Finding(since, bounds.image_pull, RolloutOutcome.FAILED, message)
        elif pod.blocked or pod.restarts:
            message = f"Pod {pod.name} was not ready for {bounds.load} seconds. {pod.message}"
            yield _Finding(since, bounds.load, RolloutOutcome.FAILED, message)


def _of_cluster(rollout: RolloutFacts, bounds: Bounds) -> Iterator[_Finding]:
    if not rollout.refused or rollout.refused_at is None:
        return
    if QUOTA_WORDS in rollout.refused:
        yield _Finding(rollout.refused_at, bounds.schedule, RolloutOutcome.NO_ROOM, rollout.refused)
    else:
        message = f"The cluster refuses its pods: {rollout.refused}"
        yield _Finding(rollout.refused_at, REFUSED_SECONDS, RolloutOutcome.FAILED, message)


def progress_words(number: int, rollout: RolloutFacts) -> str:
    return f"Revision {number}: {rollout.updated} of {rollout.total} pods are new, {rollout.ready} are ready."


def downtime_words(seconds: int | None, budget: int) -> str:
    """What replacing the only pod costs, as far as it was measured."""
    if seconds is None:
        return f"not measured yet, at most the load budget of {budget} seconds"
    return f"about {seconds} seconds, as last measured"
