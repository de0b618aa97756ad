"""What happened to a workload: steps with what is usual, and everything that was said of it, by whom."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from diagnosis.milestones import Milestone, Passage, milestones, seconds_of
from workloads.models import Attempt, EventRecord, ObjectRecord, PodRecord, Workload, WorkloadEvent
from workloads.states import Phase

LIKE_MAX: Final = 50
LOOKED_AT_MAX: Final = 200
ENTRIES_MAX: Final = 300
PODS_MAX: Final = 1_000
PULLED: Final = "Pulled"
_NUMBERS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A move of the phase, or what Kubernetes said, with how often. `object` is what it was said of, or what moved it."""

    at: datetime
    first_at: datetime
    attempt: int
    what: str
    """The phase that was come to, or the reason of the event."""
    reason: str
    message: str
    actor: str
    object: str
    count: int
    warning: bool
    kubernetes: bool


@dataclass(frozen=True, slots=True)
class History:
    steps: list[Milestone]
    entries: list[HistoryEntry]
    """The newest first."""


def history_of(workload: Workload, *, now: datetime) -> History:
    """In 8 queries. Who may see the workload is for the caller to say."""
    attempts = list(workload.attempts.order_by("number"))
    pods = list(
        PodRecord.objects.filter(workload=workload)
        .order_by("-id")
        .values_list("attempt", "uid", "scheduled_at", "started_at", named=True)[:PODS_MAX]
    )
    moves = list(workload.events.order_by("-id")[:ENTRIES_MAX])
    said = _said(workload, [pod.uid for pod in pods])
    passages = _passages(workload, attempts, pods, moves, said)
    steps = milestones(passages, usual=_usual(workload), now=now)
    of_pod = {pod.uid: pod.attempt for pod in pods}
    entries = [*map(_moved, moves), *_told_once(said, of_pod)]
    entries.sort(key=lambda entry: entry.at, reverse=True)
    return History(steps, entries[:ENTRIES_MAX])


def _said(workload: Workload, pods: Sequence[str]) -> list[EventRecord]:
    rows = list(ObjectRecord.objects.filter(workload=workload).values_list("uid", "kind", "name"))
    wanted = Q(object_uid__in=[*pods, *(uid for uid, _, _ in rows)])
    for _, kind, name in rows:
        if kind == "Deployment":
            wanted |= Q(
                namespace=workload.team.namespace_name,
                object_kind="ReplicaSet",
                object_name__startswith=f"{name}-",
            )
    found = EventRecord.objects.of(workload.cluster).filter(wanted)
    return list(found.order_by("-last_at", "-id")[: 2 * ENTRIES_MAX])


def _passages(
    workload: Workload,
    attempts: Sequence[Attempt],
    pods: Sequence[Any],
    moves: Sequence[WorkloadEvent],
    said: Sequence[EventRecord],
) -> list[Passage]:
    if not attempts:
        return [Passage(0, {"submitted": workload.created_at}, workload.is_final)]
    found = []
    waited_from = workload.created_at
    for attempt in attempts:
        own = [pod for pod in pods if pod.attempt == attempt.number]
        uids = {pod.uid for pod in own}
        pulled = [row.last_at for row in said if row.reason == PULLED and row.object_uid in uids]
        at: dict[str, datetime | None] = {
            "submitted": waited_from,
            "admitted": attempt.created_at,
            "running": _first(moves, Phase.RUNNING, attempt.number),
            "done": attempt.ended_at,
            **_of_pods(own, pulled),
        }
        known = {name: time for name, time in at.items() if time is not None}
        found.append(Passage(attempt.number, known, attempt.ended_at is not None))
        waited_from = attempt.ended_at or waited_from
    return found


def _of_pods(pods: Sequence[Any], pulled: Sequence[datetime]) -> dict[str, datetime | None]:
    """Scheduled when the last pod had a node, started when the first one ran."""
    placed = [pod.scheduled_at for pod in pods]
    started = [pod.started_at for pod in pods if pod.started_at is not None]
    return {
        "scheduled": max(placed) if placed and None not in placed else None,
        "image_pulled": max(pulled, default=None),
        "started": min(started, default=None),
    }


def _first(moves: Iterable[WorkloadEvent], phase: Phase, attempt: int) -> datetime | None:
    times = (move.at for move in moves if move.to_phase == phase.value and move.attempt == attempt)
    return min(times, default=None)


def _usual(workload: Workload) -> dict[str, list[float]]:
    """How long each step took the newest others of the team with the same kind, flavor and number of pods, at once."""
    newest = Workload.objects.filter(team=workload.team_id, kind=workload.kind)
    rows = newest.order_by("-created_at", "-id").values(
        "id", "flavor_id", "pod_count", "attempt_number", "created_at", "admitted_at", "started_at", "phase", "finished_at"
    )  # fmt: skip
    like = {row["id"]: row for row in rows[:LOOKED_AT_MAX] if _is_like(row, workload)}
    like = dict(list(like.items())[:LIKE_MAX])
    if not like:
        return {}
    pods = list(
        PodRecord.objects.filter(workload__in=list(like)).values_list(
            "workload_id", "uid", "scheduled_at", "started_at", named=True
        )[: PODS_MAX * 2]
    )
    pulls = EventRecord.objects.filter(reason=PULLED, object_uid__in=[pod.uid for pod in pods])
    pulled = dict(pulls.values_list("object_uid", "last_at"))
    found: dict[str, list[float]] = {}
    for key, row in like.items():
        own = [pod for pod in pods if pod.workload_id == key]
        times = [pulled[pod.uid] for pod in own if pod.uid in pulled]
        at = {
            "submitted": row["created_at"],
            "admitted": row["admitted_at"],
            "done": row["finished_at"] if row["phase"] == Phase.SUCCEEDED.value else None,
            "running": row["started_at"],
            **_of_pods(own, times),
        }
        for name, seconds in seconds_of({name: time for name, time in at.items() if time}).items():
            found.setdefault(name, []).append(seconds)
    return found


def _is_like(row: Mapping[str, Any], workload: Workload) -> bool:
    return (
        row["id"] != workload.pk
        and row["attempt_number"] == 1
        and row["started_at"] is not None
        and (row["flavor_id"], row["pod_count"]) == (workload.flavor_id, workload.pod_count)
    )


def _moved(move: WorkloadEvent) -> HistoryEntry:
    return HistoryEntry(
        at=move.at,
        first_at=move.at,
        attempt=move.attempt,
        what=move.to_phase,
        reason=move.reason,
        message=move.message,
        actor=move.actor,
        object=move.source,
        count=1,
        warning=move.to_phase == Phase.FAILED.value,
        kubernetes=False,
    )


def _told_once(said: Sequence[EventRecord], of_pod: Mapping[str, int]) -> list[HistoryEntry]:
    """What was said of one object in the same words, numbers apart, is one entry; the newest words stand for all."""
    found: dict[tuple[str, str, str], HistoryEntry] = {}
    for row in said:
        key = (row.object_uid or row.object_name, row.reason, _NUMBERS.sub("#", row.message))
        before = found.get(key)
        if before is not None:
            found[key] = replace(
                before, count=before.count + row.count, first_at=min(before.first_at, row.first_at)
            )
            continue
        found[key] = HistoryEntry(
            at=row.last_at,
            first_at=row.first_at,
            attempt=of_pod.get(row.object_uid, 0),
            what=row.reason,
            reason=row.reason,
            message=row.message,
            actor=row.source or "kubernetes",
            object=f"{row.object_kind} {row.object_name}",
            count=row.count,
            warning=row.warning,
            kubernetes=True,
        )
    return list(found.values())
