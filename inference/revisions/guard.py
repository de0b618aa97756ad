"""The rollout guard: whether a new revision's pods find quota and room beside the old ones, and what else can be done.

CardRequest before anything changes, by preview, PATCH and the page alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controller.admission.surge import SurgeRoom, surge_room
from controller.references import claims_of_one_node
from controller.waiting_card import Card, CardRequest, card_for
from inference.models import Endpoint
from inference.rollouts import downtime_words
from inference.specs import DRAIN_SECONDS, REPLACE, SURGE, WHEN_REPLACE, WHEN_WAIT, EndpointSpec
from quotas.queries import holds_surge, nameable_teams
from quotas.waiters import new_waiter
from teams.models import User
from workloads.models import Workload
from workloads.states import HOLDS_CLAIM, Phase, Priority, Reason

QUOTA_REQUESTS = "/api/v1/quota-requests/"
ROLLS_OUT = HOLDS_CLAIM - {Phase.STOPPING}


@dataclass(frozen=True)
class Option:
    """One way out. `change` is what to send with the request; empty where something else has to happen first."""

    name: str
    message: str
    change: dict[str, Any]
    downtime_seconds: int | None = None
    start: datetime | None = None
    url: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "option": self.name,
            "message": self.message,
            "change": self.change,
            "downtime_seconds": self.downtime_seconds,
            "start": self.start.isoformat() if self.start else None,
            "url": self.url,
        }


@dataclass(frozen=True)
class Guarded:
    """How a change would be rolled out. `blocked` says why it cannot be, and is empty where it can."""

    strategy: str
    surge_units: int
    blocked: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    message: str = ""
    downtime_seconds: int | None = 0
    """How long no replica would answer; None where that was never measured."""
    waits: bool = False
    """Whether it is taken and begins once there is room."""

    @property
    def verdict(self) -> str:
        """Whether it is rolled out now (`go`), once there is room (`wait`), or not as asked for (`blocked`)."""
        return "blocked" if self.blocked else "wait" if self.waits else "go"

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        return " ".join(self.blocked) or self.message


def guard(
    endpoint: Endpoint, spec: EndpointSpec, *, new_pods: bool, user: User | None, now: datetime
) -> Guarded:
    """How `spec` would be rolled out now. `new_pods` says whether the pods that run are not its own.

    Where the surge is blocked, the spec's own answer to that (`when_blocked`) decides.
    """
    workload = endpoint.workload
    sleeps = workload.reason == Reason.SCALED_TO_ZERO.value
    if not new_pods or sleeps or Phase(workload.phase) not in ROLLS_OUT:
        return Guarded(spec.strategy, 0, message="No pod is replaced.")
    asked = _Asked(endpoint, spec, user, now)
    if spec.strategy == REPLACE:
        return asked.in_place(())
    return _by_surge(asked)


def _by_surge(asked: _Asked) -> Guarded:
    endpoint, workload, spec = asked.endpoint, asked.workload, asked.spec
    if holds_surge(workload):
        return Guarded(
            SURGE, spec.gpus_per_replica, message="It goes on with the room that its rollout holds."
        )
    refusals = asked.refusals()
    if not refusals:
        text = "The new pods come one by one, each before an old one goes."
        return Guarded(SURGE, spec.gpus_per_replica, message=text)
    # Pods that do not answer are not worth keeping, and the room that they have is what the new pods lack.
    if spec.when_blocked == WHEN_REPLACE or endpoint.stable_revision is None or not _answers(workload):
        return asked.in_place(refusals)
    if spec.when_blocked == WHEN_WAIT and not asked.claims:
        text = f"It begins once there is room, and what runs stays until then. {' '.join(refusals)}"
        return Guarded(SURGE, spec.gpus_per_replica, message=text, waits=True)
    return Guarded(SURGE, spec.gpus_per_replica, blocked=refusals, options=asked.options())


def _answers(workload: Workload) -> bool:
    """Whether a replica was ready at the last look: what only starts, or wakes, has none."""
    return workload.phase == Phase.RUNNING.value and workload.reason != Reason.WAKING.value


class _Asked:
    def __init__(self, endpoint: Endpoint, spec: EndpointSpec, user: User | None, now: datetime) -> None:
        self.endpoint, self.spec, self.user, self.now = endpoint, spec, user, now
        self.workload = endpoint.workload
        self.claims = claims_of_one_node(spec, self.workload.team, now=now)
        self.room = self._room()

    def _room(self) -> SurgeRoom | None:
        flavor, units = self.workload.flavor, self.spec.gpus_per_replica
        if flavor is None or not units:
            return None
        return surge_room(
            team=self.workload.team,
            flavor=flavor,
            capacity_type=self.workload.capacity_type,
            units=units,
            beside=self.spec.beside,
        )

    def refusals(self) -> tuple[str, ...]:
        refusals = [
            f"Claim {claim.name} is {' and '.join(sorted(claim.access_modes))}: while the old pod has it, a new one "
            "on another node does not get it, so that neither would go nor come."
            for claim in self.claims
        ]
        return (*refusals, *(self.room.refusals if self.room else ()))

    def in_place(self, refusals: tuple[str, ...]) -> Guarded:
        """Pods replaced one by one, each gone before its successor comes; blocked where that takes too long."""
        downtime, most = self._downtime(), self.spec.max_downtime_seconds
        if self._pods() > 1:
            text = "Pods are replaced one by one, with one fewer than usual while that lasts."
            return Guarded(REPLACE, 0, message=" ".join((text, *refusals)))
        words = downtime_words(downtime, self.spec.probes.load_budget_seconds)
        if most and downtime is not None and downtime > most:
            text = f"Replacing its only pod takes {words}; at most {most} seconds are allowed."
            change = {"rollout": {"strategy": REPLACE, "max_downtime_seconds": _rounded(downtime)}}
            longer = Option("replace", f"Allow {_rounded(downtime)} seconds.", change, downtime)
            return Guarded(REPLACE, 0, blocked=(*refusals, text), options=(longer,))
        text = f"Its only pod goes before the new one comes. No replica answers meanwhile: {words}."
        return Guarded(REPLACE, 0, message=" ".join((text, *refusals)), downtime_seconds=downtime)

    def options(self) -> tuple[Option, ...]:
        options = [self._replace()]
        if not self.claims:
            options.append(self._wait())
        if self.room is not None and not self.room.granted:
            options.append(self._ask(self.room))
        return tuple(options)

    def _replace(self) -> Option:
        downtime = self._downtime()
        most = _rounded(downtime) if downtime is not None else self.spec.probes.load_budget_seconds
        if self._pods() > 1:
            text = "Replace in place: one pod after the other goes before its successor comes; the others answer."
            return Option("replace", text, {"rollout": {"strategy": REPLACE}}, 0)
        words = downtime_words(downtime, self.spec.probes.load_budget_seconds)
        text = (
            f"Replace in place: no replica answers for a while ({words}). If the new pod is not ready within "
            f"{most} seconds, the old revision comes back."
        )
        change = {"rollout": {"strategy": REPLACE, "max_downtime_seconds": most}}
        return Option("replace", text, change, downtime)

    def _wait(self) -> Option:
        """Later: by the simulation that says for all waiters when they start."""
        start = _moment(card.estimate.p50) if (card := self._card()) else None
        when = "When that will be is not known."
        if start is not None and start > self.now:
            when = f"That is expected at {start:%Y-%m-%d %H:%M} UTC."
        elif card is not None and card.estimate.unknown_because:
            when = f"When that will be is not known: {card.estimate.unknown_because}"
        text = f"Wait: the change is kept and begins when there is room; what runs stays until then. {when}"
        return Option("wait", text, {"rollout": {"when_blocked": WHEN_WAIT}}, 0, start=start)

    def _ask(self, room: SurgeRoom) -> Option:
        most = (room.limit or 0) + room.units - max(0, room.available or 0)
        text = (
            f"Ask for quota: with a limit of {most} {room.flavor} ({room.capacity_type}) the surge would be granted."
            if room.limit is not None
            else f"Ask for a quota of {room.flavor} ({room.capacity_type})."
        )
        return Option("quota", text, {}, url=QUOTA_REQUESTS)

    def _card(self) -> Card | None:
        """What the queue would say to one pod more of this team."""
        if self.workload.flavor is None or self.room is None:
            return None
        waiter = new_waiter(
            team=self.workload.team.slug,
            owner_id=self.workload.owner_id,
            noun="rollout",
            units=self.room.units,
            units_each=self.room.units,
            pods=1,
            priority=Priority(self.workload.priority),
            seconds=None,
            preemptible=False,
            now=self.now,
        )
        asked = CardRequest(
            kind=self.workload.kind,
            team=self.workload.team,
            flavor=self.workload.flavor,
            capacity_type=self.workload.capacity_type,
            waiter=waiter,
            time_limit_seconds=None,
        )
        named = nameable_teams(self.user) if self.user else frozenset()
        return card_for(asked, named=named, now=self.now, with_levers=False)

    def _pods(self) -> int:
        """Replicas that run now, whatever the scaler has made of them; at least one."""
        return max(1, pods_now(self.workload))

    def _downtime(self) -> int | None:
        """Seconds from the old pod's end to the new one's first answer, as measured last; 0 where others answer."""
        if self._pods() > 1:
            return 0
        measured = self.endpoint.revisions.filter(load_seconds__isnull=False).order_by("-number")
        load = measured.values_list("load_seconds", flat=True).first()
        return None if load is None else load + DRAIN_SECONDS


def pods_now(workload: Workload) -> int:
    """Pods of the present attempt that have not ended and are not being deleted."""
    alive = workload.pods.filter(attempt=workload.attempt_number, gone_at=None, finished_at=None)
    return alive.filter(deletion_at=None).count()


def _rounded(seconds: int) -> int:
    """Half as much again, in steps of ten: a bound that what was measured once will meet another time."""
    return -(-seconds * 3 // 20) * 10


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
