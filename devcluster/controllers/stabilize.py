"""How far and how fast a HorizontalPodAutoscaler may go: stabilization windows and scaling policies, as in Kubernetes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from devcluster.objects import Obj

DOWN_WINDOW_SECONDS = 300
"""The controller manager's `--horizontal-pod-autoscaler-downscale-stabilization`."""
_UP_FACTOR, _UP_LEAST = 2.0, 4.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A number of replicas, and the two conditions that say how it came about (reason and message)."""

    replicas: int
    able: tuple[str, str]
    limited: tuple[bool, str, str]


@dataclass(slots=True)
class Memory:
    """What one autoscaler recommended and did: (Unix seconds, replicas), within the longest window."""

    recommended: list[tuple[float, int]] = field(default_factory=list)
    ups: list[tuple[float, int]] = field(default_factory=list)
    downs: list[tuple[float, int]] = field(default_factory=list)

    def scaled(self, now: float, before: int, after: int, behavior: Obj | None) -> None:
        """Note a change, for the policies that allow so many in a period."""
        if behavior is None:
            return
        events, way = (self.ups, "scaleUp") if after > before else (self.downs, "scaleDown")
        longest = max(policy["periodSeconds"] for policy in behavior[way]["policies"])
        events[:] = [event for event in events if event[0] >= now - longest]
        events.append((now, abs(after - before)))


@dataclass(frozen=True, slots=True)
class Ask:
    """What the metrics ask for, and between which bounds."""

    now: float
    current: int
    desired: int
    least: int
    most: int


READY = ("ReadyForNewScale", "recommended size matches current size")
_STABILIZED = "recent recommendations were {} than current one, applying the {} recent recommendation"
_STABLE_UP = ("ScaleUpStabilized", _STABILIZED.format("lower", "lowest"))
_STABLE_DOWN = ("ScaleDownStabilized", _STABILIZED.format("higher", "highest"))
_WITHIN = (False, "DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = (True, "TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = (True, "TooFewReplicas", "the desired replica count is less than the minimum replica count")
_RATE = "the desired replica count is {} faster than the maximum scale rate"
_TOO_FAST = (True, "ScaleUpLimit", _RATE.format("increasing"))
_TOO_FAST_DOWN = (True, "ScaleDownLimit", _RATE.format("decreasing"))


def decide(memory: Memory, ask: Ask, behavior: Obj | None) -> Verdict:
    """The number of replicas to go to; notes the recommendation in `memory`."""
    stable = _stabilized(memory, ask, behavior)
    able = READY
    if stable != ask.desired:
        # Without a behavior only the way down is held back.
        able = _STABLE_UP if behavior is not None and ask.desired >= ask.current else _STABLE_DOWN
    allowed, limited = (_plain if behavior is None else _by_policies)(memory, ask, stable, behavior or {})
    return Verdict(allowed, able, limited if allowed != stable else (False, *_WITHIN[1:]))


def _stabilized(memory: Memory, ask: Ask, behavior: Obj | None) -> int:
    up = behavior["scaleUp"]["stabilizationWindowSeconds"] if behavior else 0
    down = behavior["scaleDown"].get("stabilizationWindowSeconds", DOWN_WINDOW_SECONDS) if behavior else None
    down = DOWN_WINDOW_SECONDS if down is None else down
    known = [entry for entry in memory.recommended if entry[0] > ask.now - max(up, down)]
    memory.recommended[:] = [*known, (ask.now, ask.desired)]
    if behavior is None:
        return max([ask.desired, *(replicas for _, replicas in known)])
    lowest = min([ask.desired, *(replicas for at, replicas in known if at > ask.now - up)])
    highest = max([ask.desired, *(replicas for at, replicas in known if at > ask.now - down)])
    return min(max(ask.current, lowest), highest)


def _plain(_memory: Memory, ask: Ask, wanted: int, _behavior: Obj) -> tuple[int, tuple[bool, str, str]]:
    fastest = int(max(_UP_FACTOR * ask.current, _UP_LEAST))
    most, why = (fastest, _TOO_FAST) if ask.most > fastest else (ask.most, _TOO_MANY)
    if wanted < ask.least:
        return ask.least, _TOO_FEW
    return (most, why) if wanted > most else (wanted, _WITHIN)


def _by_policies(memory: Memory, ask: Ask, wanted: int, behavior: Obj) -> tuple[int, tuple[bool, str, str]]:
    if wanted > ask.current:
        fastest = max(_limit(memory, ask, behavior["scaleUp"], up=True), ask.current)
        most, why = (fastest, _TOO_FAST) if ask.most > fastest else (ask.most, _TOO_MANY)
        return (most, why) if wanted > most else (wanted, _WITHIN)
    if wanted < ask.current:
        fastest = min(_limit(memory, ask, behavior["scaleDown"], up=False), ask.current)
        least, why = (fastest, _TOO_FAST_DOWN) if ask.least < fastest else (ask.least, _TOO_FEW)
        return (least, why) if wanted < least else (wanted, _WITHIN)
    return wanted, _WITHIN


def _limit(memory: Memory, ask: Ask, rules: Obj, *, up: bool) -> int:
    """How many replicas there may be at most (or at least) by the rules just now."""
    if rules["selectPolicy"] == "Disabled":
        return ask.current
    proposals: list[int] = []
    for policy in rules["policies"]:
        since = ask.now - policy["periodSeconds"]
        added = sum(change for at, change in memory.ups if at > since)
        removed = sum(change for at, change in memory.downs if at > since)
        start, step = ask.current - added + removed, policy["value"]
        if policy["type"] == "Pods":
            proposals.append(start + step if up else start - step)
        else:
            proposals.append(math.ceil(start * (1 + step / 100)) if up else int(start * (1 - step / 100)))
    # The largest change is the default; Min asks for the smallest.
    largest = rules["selectPolicy"] != "Min"
    return max(proposals) if up == largest else min(proposals)
