"""A rule of the table, and what it finds. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from diagnosis.evidence import Case, ContainerEvidence, ObjectEvidence, PodEvidence, Said
from workloads.placement import WHOLE_GPU
from workloads.pods.pod_facts import parse_time

VALUE_LENGTH_MAX: Final = 600
_AMOUNT: Final = re.compile(r"([1-9][0-9]{0,8})([KMGT]i?)", re.ASCII)


class Confidence(StrEnum):
    CERTAIN = "certain"
    """The cluster says so in as many words."""
    LIKELY = "likely"
    """What was seen hardly has another cause."""
    POSSIBLE = "possible"
    """It fits, and so may other causes."""

    @property
    def meaning(self) -> str:
        """What the word says, in a sentence."""
        return _MEANINGS[self]


class WhoActs(StrEnum):
    """Who can put it right."""

    OWNER = "owner"
    ADMIN = "admin"
    NOBODY = "nobody"
    """It passes, or the portal tries again by itself."""

    @property
    def words(self) -> str:
        """Who that is, as it is said to the workload's team."""
        return _WHO[self]


_MEANINGS: Final = {
    Confidence.CERTAIN: "The cluster or the program says so in as many words.",
    Confidence.LIKELY: "What was seen hardly has another cause.",
    Confidence.POSSIBLE: "It fits what was seen, and so may other causes.",
}
_WHO: Final = {
    WhoActs.OWNER: "You can mend this",
    WhoActs.ADMIN: "The cluster's operator can mend this",
    WhoActs.NOBODY: "Nobody has to act",
}


@dataclass(frozen=True, slots=True)
class Proof:
    """A value of a field of an object, and when that was seen."""

    object: str
    field: str
    value: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rule says of a case: a sentence with the numbers, and what shows it. The rest stands in the rule."""

    words: str
    proofs: tuple[Proof, ...] = ()
    confidence: Confidence = Confidence.CERTAIN
    next_step: str = ""
    """In place of the rule's, where this case calls for another."""
    line: datetime | None = None
    """Time of the log line that shows it."""
    pod: str = ""
    title: str = ""
    who: WhoActs | None = None
    repeats: bool | None = None
    """These three in place of the rule's, too."""
    secret: str = ""
    """A Secret of the team that it needs."""
    traceback: tuple[str, ...] = ()
    """The lines of its log that lead to the error."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause, with its evidence and one next step. The id is stable."""

    id: str
    title: str
    words: str
    evidence: tuple[Proof, ...]
    confidence: Confidence
    next_step: str
    who: WhoActs
    pod: str = ""
    line: datetime | None = None
    repeats: bool = False
    """Whether the same request would surely fail in the same way."""
    secret: str = ""
    traceback: tuple[str, ...] = ()
    """The lines of the log from where the traceback begins up to the error."""


PodTest = Callable[[Case, PodEvidence], Iterator[Sign]]
CaseTest = Callable[[Case], Iterator[Sign]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: what is seen, what it is called, and what to do."""

    id: str
    title: str
    signal: str
    next_step: str
    who: WhoActs
    repeats: bool = False
    """Whether it lies in the request or the program, so that the same one would fail in the same way."""
    of_pod: PodTest | None = None
    of_case: CaseTest | None = None

    def finding(self, found: Sign) -> Cause:
        repeats = self.repeats if found.repeats is None else found.repeats
        return Cause(
            id=self.id,
            title=found.title or self.title,
            words=found.words,
            evidence=found.proofs,
            confidence=found.confidence,
            next_step=found.next_step or self.next_step,
            who=found.who or self.who,
            pod=found.pod,
            line=found.line,
            repeats=repeats and found.confidence is Confidence.CERTAIN,
            secret=found.secret,
            traceback=found.traceback,
        )


def pod_rule(
    row: str, title: str, *, signal: str, next_step: str, who: WhoActs, repeats: bool = False
) -> Callable[[PodTest], Rule]:
    """Make a rule of a function that looks at one pod."""
    return lambda test: Rule(row, title, signal, next_step, who, repeats, of_pod=test)


def case_rule(
    row: str, title: str, *, signal: str, next_step: str, who: WhoActs, repeats: bool = False
) -> Callable[[CaseTest], Rule]:
    """Make a rule of a function that looks at all there is."""
    return lambda test: Rule(row, title, signal, next_step, who, repeats, of_case=test)


def proof_of_status(pod: PodEvidence) -> Proof:
    """The pod's own reason and message."""
    return Proof(f"Pod {pod.name}", "status.reason", _short(f"{pod.reason}: {pod.message}"), pod.finished_at)


def proof_of_condition(of: PodEvidence | ObjectEvidence, kind: str) -> Proof:
    """A condition with its reason and message."""
    item = of.condition(kind)
    who = f"Pod {of.name}" if isinstance(of, PodEvidence) else f"{of.kind} {of.name}"
    value = ": ".join(str(item[name]) for name in ("reason", "message") if item.get(name))
    at = parse_time(item.get("lastTransitionTime"))
    return Proof(who, f"status.conditions[{kind}]={item.get('status', '')}", _short(value), at)


def proof_of_container(pod: PodEvidence, item: ContainerEvidence) -> Proof:
    """The state of a container."""
    code = f"exit code {item.exit_code}" if item.exit_code is not None else ""
    value = ", ".join(part for part in (item.reason, code, item.message) if part)
    return Proof(f"Pod {pod.name}", item.field, _short(value), item.finished_at or item.started_at)


def proof_of_said(said: Said) -> Proof:
    """An event, with how often it was repeated."""
    times = f" ({said.count} times)" if said.count > 1 else ""
    return Proof(
        f"{said.kind} {said.name}", f"event {said.reason}", _short(f"{said.message}{times}"), said.at
    )


def such_as_twice(amount: str) -> str:
    """`, such as 32Gi` of 16Gi: a figure to try next; empty of what is no plain amount."""
    match = _AMOUNT.fullmatch(amount)
    return f", such as `{int(match[1]) * 2}{match[2]}`" if match else ""


def gpus_in_words(resource: str, amount: str = "") -> str:
    """`4 GPUs` of the resource of whole cards; other resources keep their names."""
    name = resource.removeprefix("requests.").removeprefix("limits.")
    if name == WHOLE_GPU:
        name = "GPU" if amount == "1" else "GPUs"
    return f"{amount} {name}" if amount else name


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= VALUE_LENGTH_MAX else text[: VALUE_LENGTH_MAX - 1] + "…"
