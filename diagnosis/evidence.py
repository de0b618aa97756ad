"""What a diagnosis is made from: pods, objects, nodes, events and log lines of one workload, as they were kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from workloads.placement import NodeFacts, tolerated
from workloads.pods.pod_facts import ENDED, parse_time

Json = Mapping[str, Any]

_PREEMPTION: Final = re.compile(r"\.?\s*(?:no new claims to deallocate,\s*)?(?=preemption: )")
_AVAILABLE: Final = re.compile(r"^\d+/(\d+) nodes are available: ")
_COUNTED: Final = re.compile(r"^(\d+) (.+)$")
_NEXT: Final = re.compile(r", (?=\d+ )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What Kubernetes said of an object, and how often."""

    kind: str
    name: str
    reason: str
    message: str
    warning: bool = True
    source: str = ""
    count: int = 1
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEvidence:
    """A container's state that tells something. `kind` is waiting, terminated or running; `last` is the end before."""

    name: str
    init: bool
    kind: str
    reason: str
    message: str
    exit_code: int | None
    started_at: datetime | None
    finished_at: datetime | None
    restarts: int
    image: str
    ready: bool = False
    """Whether the container is up, and its probe content."""
    previous: bool = False
    """Whether it is the end before the present state."""

    @property
    def field(self) -> str:
        """Where in the pod's status it stands."""
        where = "initContainerStatuses" if self.init else "containerStatuses"
        return f"status.{where}[{self.name}].{'lastState' if self.previous else 'state'}.{self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvidence:
    """One pod. `told` is what `workloads.pods.evidence` kept of its status."""

    name: str
    node: str = ""
    phase: str = ""
    ready: bool = False
    restarts: int = 0
    units: int = 0
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deletion_at: datetime | None = None
    gone_at: datetime | None = None
    told: Json = field(default_factory=dict)
    said: Sequence[Said] = ()

    @property
    def failed(self) -> bool:
        return self.phase == "Failed"

    @property
    def ended(self) -> bool:
        return self.phase in ENDED or self.gone_at is not None

    @property
    def reason(self) -> str:
        return str(self.told.get("reason") or "")

    @property
    def message(self) -> str:
        return str(self.told.get("message") or "")

    @property
    def asks(self) -> Json:
        """What it asks of a node, while it has none."""
        asked: Json = self.told.get("asks") or {}
        return asked

    def condition(self, kind: str) -> Json:
        """The condition that was kept; empty for one that is as it should be."""
        return condition_of(self.told, kind)

    def containers(self) -> Iterator[ContainerEvidence]:
        """Init containers first; of each its state, then the end before it."""
        for item in self.told.get("containers") or ():
            for key in ("state", "last"):
                if item.get(key):
                    yield _container(item, item[key], previous=key == "last")

    def heard(self, *reasons: str) -> Iterator[Said]:
        """What was said of it with one of these reasons, the newest first."""
        return (said for said in self.said if said.reason in reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEvidence:
    """A Job, Deployment, ScaledObject or the like, or what makes its pods."""

    kind: str
    name: str
    told: Json = field(default_factory=dict)
    said: Sequence[Said] = ()
    gone_at: datetime | None = None

    def condition(self, kind: str) -> Json:
        return condition_of(self.told, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    facts: NodeFacts
    capacity: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    conditions: Sequence[Json] = ()
    gone_at: datetime | None = None
    said: Sequence[Said] = ()

    def untolerated(self, tolerations: Sequence[Json]) -> list[str]:
        """Its taints that keep the pod away, as `key=value:Effect`."""
        return [
            f"{taint.get('key')}{'=' + str(taint['value']) if taint.get('value') else ''}:{taint.get('effect')}"
            for taint in self.facts.taints
            if not tolerated(taint, tolerations)
        ]

    def matches(self, asks: Json) -> bool:
        """Whether it has the labels that the pod asks for."""
        labels, terms = self.facts.labels, asks.get("terms") or ()
        wanted: Json = asks.get("selector") or {}
        return all(labels.get(key) == value for key, value in wanted.items()) and (
            not terms or any(_satisfies(labels, term) for term in terms)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEvidence:
    """A PersistentVolumeClaim that its pods mount; `phase` is empty for one that is not there."""

    name: str
    phase: str
    said: Sequence[Said] = ()


@dataclass(frozen=True, slots=True)
class LogEvidence:
    at: datetime
    pod: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the request says that rules speak of; amounts as it writes them, empty where it names none."""

    command: str = ""
    """The first word."""
    memory: str = ""
    shm: str = ""
    storage: str = ""
    gpus: int = 0
    pods: int = 1
    flavor: str = ""
    sharing: str = ""
    """How the cards of its flavor are shared; empty of whole ones."""
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The keys that it needs of each Secret."""
    pull_secrets: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known of one workload and its newest attempt. `ends` is true of a run, false of an endpoint."""

    name: str
    noun: str = "run"
    phase: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    ends: bool = True
    attempt: int = 1
    resource: str = ""
    """Of its flavor; empty without one."""
    now: datetime
    asked: Asked = field(default_factory=Asked)
    pods: Sequence[PodEvidence] = ()
    objects: Sequence[ObjectEvidence] = ()
    nodes: Sequence[NodeEvidence] = ()
    claims: Sequence[ClaimEvidence] = ()
    log: Sequence[LogEvidence] = ()

    @property
    def over(self) -> bool:
        """Whether it has failed for good: nothing goes on by itself then."""
        return self.phase == "Failed"

    def node(self, name: str) -> NodeEvidence | None:
        """The node of that name, also if it has gone."""
        return next((node for node in self.nodes if node.facts.name == name), None)

    @property
    def there(self) -> list[NodeEvidence]:
        """The nodes that exist."""
        return [node for node in self.nodes if node.gone_at is None]

    def lines_of(self, pod: PodEvidence) -> list[LogEvidence]:
        """The last lines that the pod wrote, the oldest first."""
        return [line for line in self.log if line.pod == pod.name]


@dataclass(frozen=True, slots=True)
class Unfit:
    """One part of the scheduler's answer: on so many nodes (None: it did not count), for this reason."""

    nodes: int | None
    text: str


def unfit(message: str) -> list[Unfit]:
    """The scheduler's reasons why no node takes a pod, without what it says of preemption."""
    text = _PREEMPTION.split(message.strip(), maxsplit=1)[0].strip().rstrip(".")
    text = _AVAILABLE.sub("", text)
    parts = _NEXT.split(text) if text else []
    found = []
    for part in parts:
        match = _COUNTED.match(part)
        found.append(Unfit(int(match[1]), match[2]) if match else Unfit(None, part))
    return found


def condition_of(told: Json, kind: str) -> Json:
    """The condition of that type among those that were kept; empty where there is none."""
    conditions: Sequence[Json] = told.get("conditions") or ()
    return next((item for item in conditions if item.get("type") == kind), {})


def _container(item: Json, state: Json, *, previous: bool) -> ContainerEvidence:
    code = state.get("exitCode")
    return ContainerEvidence(
        name=str(item.get("name") or ""),
        init=bool(item.get("init")),
        kind=str(state.get("kind") or ""),
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or "").strip(),
        exit_code=code if isinstance(code, int) else None,
        started_at=parse_time(state.get("startedAt")),
        finished_at=parse_time(state.get("finishedAt")),
        restarts=int(item.get("restarts") or 0),
        image=str(item.get("image") or ""),
        ready=bool(item.get("ready")),
        previous=previous,
    )


def _satisfies(labels: Mapping[str, str], term: Json) -> bool:
    for wish in term.get("matchExpressions") or ():
        value, values = labels.get(str(wish.get("key"))), wish.get("values") or ()
        operator = wish.get("operator")
        if operator == "In" and value not in values:
            return False
        if operator == "NotIn" and value in values:
            return False
        if operator == "Exists" and value is None:
            return False
        if operator == "DoesNotExist" and value is not None:
            return False
    return True
