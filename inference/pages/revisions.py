"""How pages show revisions: what each changed, how its rollout went, and what a change that is typed would do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inference.changes import Effect, SpecChange, changes_between, same_pods
from inference.models import Endpoint, EndpointRevision, RevisionCause, RevisionState
from inference.revisions.guard import Option
from inference.revisions.services import Effects, Planned, effects_of
from inference.specs import REPLACE, WHEN_WAIT
from workloads.models import WorkloadEvent

SHOWN_MAX = 50
STEPS_MAX = 400
CAUSES: Mapping[str, str] = {
    RevisionCause.ROLLBACK.value: "rollback to",
    RevisionCause.AUTOMATIC_ROLLBACK.value: "rolled back by itself to",
}
EFFECTS: Mapping[Effect, str] = {
    Effect.ROLLOUT: "pods are replaced",
    Effect.SIZE: "more or fewer pods",
    Effect.ROUTING: "no pod notices",
    Effect.NEXT_ROLLOUT: "how it is rolled out",
    Effect.FIXED: "cannot change",
}
BADGES: Mapping[str, str] = {
    RevisionState.LIVE.value: "Running",
    RevisionState.ROLLING_OUT.value: "Starting",
    RevisionState.PENDING.value: "Queued",
    RevisionState.FAILED.value: "Failed",
    RevisionState.SUPERSEDED.value: "Suspended",
}
"""The phase whose colour and sign a state has."""


@dataclass(frozen=True)
class RevisionDifference:
    """One field, in words."""

    field: str
    before: str
    after: str
    effect: str


@dataclass(frozen=True)
class RevisionLook:
    revision: EndpointRevision
    badge: str
    cause: str
    current: bool
    returnable: bool
    """Whether people can go back to it."""
    differences: tuple[RevisionDifference, ...]
    steps: tuple[WorkloadEvent, ...]


@dataclass(frozen=True)
class RevisionChoice:
    """A way out of a rollout that has no room; `value` is what its button sends, empty where it is a link."""

    value: str
    label: str
    message: str
    leads_to_quota: bool = False


@dataclass(frozen=True)
class ChangeLook:
    """What a change would do, or why it cannot begin."""

    differences: tuple[RevisionDifference, ...]
    effects: Effects
    blocked: tuple[str, ...]
    message: str
    choices: tuple[RevisionChoice, ...]


@dataclass(frozen=True)
class MovedLook:
    """What became of an endpoint while a user wrote a change of revision `number`."""

    number: int
    since: tuple[RevisionLook, ...]
    """The revisions that came after it, newest first."""
    differences: tuple[RevisionDifference, ...]
    both: tuple[str, ...]
    """Labels of the inputs that both have changed."""


def moved_look(endpoint: Endpoint, began: EndpointRevision, both: Sequence[str]) -> MovedLook:
    changes = changes_between(began.spec, endpoint.current.spec)
    since = [look for look in looks_of(endpoint) if look.revision.number > began.number]
    return MovedLook(began.number, tuple(since), differences(changes), tuple(both))


def looks_of(endpoint: Endpoint) -> list[RevisionLook]:
    """Its revisions, newest first."""
    revisions = list(endpoint.revisions.all()[: SHOWN_MAX + 1])
    older: Sequence[EndpointRevision | None] = [*revisions[1:], None]
    events = endpoint.workload.events.filter(source__startswith="revision ").order_by("-id")[:STEPS_MAX]
    steps: dict[str, list[WorkloadEvent]] = {}
    for event in events:
        steps.setdefault(event.source, []).insert(0, event)
    current = next((revision for revision in revisions if revision.number == endpoint.revision), None)
    return [
        RevisionLook(
            revision=revision,
            badge=BADGES[revision.state],
            cause=CAUSES.get(revision.cause, ""),
            current=revision is current,
            returnable=current is not None and _returnable(revision, current),
            differences=differences(changes_between(before.spec, revision.spec)) if before else (),
            steps=tuple(steps.get(f"revision {revision.number}", ())),
        )
        for revision, before in zip(revisions[:SHOWN_MAX], older, strict=False)
    ]


def _returnable(revision: EndpointRevision, current: EndpointRevision) -> bool:
    """Whether it once was ready, and other pods than those of the current one would come back."""
    return revision.live_at is not None and not same_pods(revision.spec, current.spec)


def differences(changes: Sequence[SpecChange]) -> tuple[RevisionDifference, ...]:
    return tuple(
        RevisionDifference(change.field, _shown(change.before), _shown(change.after), EFFECTS[change.effect])
        for change in changes
    )


def _shown(value: Any) -> str:
    if value in (None, "", [], {}):
        return "nothing"
    if isinstance(value, Mapping):
        value = {name: item for name, item in value.items() if item is not None}
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def change_look(planned: Planned, now: datetime) -> ChangeLook:
    guarded = planned.guarded
    before = planned.endpoint.current.parsed
    return ChangeLook(
        differences=differences(planned.changes),
        effects=effects_of(planned.endpoint, before, planned.spec, surge=guarded.surge_units, now=now),
        blocked=guarded.blocked,
        message=guarded.message,
        choices=tuple(_choice(option) for option in guarded.options),
    )


def _choice(option: Option) -> RevisionChoice:
    seconds = option.change.get("rollout", {}).get("max_downtime_seconds")
    if option.name == "quota":
        return RevisionChoice("", "Ask for quota", option.message, leads_to_quota=True)
    if option.name == "wait":
        return RevisionChoice("wait", "Wait for room", option.message)
    return RevisionChoice(
        "replace" if seconds is None else f"replace-{seconds}", "Replace in place", option.message
    )


def chosen_rollout(value: str) -> dict[str, Any]:
    """What a choice's button means for the request; nothing for what is none."""
    name, _, seconds = value.partition("-")
    if name == "wait":
        return {"when_blocked": WHEN_WAIT}
    if name != "replace":
        return {}
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 8):
        return {"strategy": REPLACE}
    return {"strategy": REPLACE, "max_downtime_seconds": int(seconds)}
