"""What a team may hold of CPU, memory, ephemeral storage and pods, in all pools and without GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from policy.pool_snapshot import Amounts, TeamFacts, Waiter
from workloads.podrequests import CPU, MEMORY, OTHERS, PODS, STORAGE, count_of

ABOVE_CEILING = tuple(f"max-ceiling-{name}" for name in OTHERS)
"""The step that finds more asked for than the team may ever hold, by the number in Amounts."""
AT_CEILING = tuple(f"ceiling-{name}" for name in OTHERS)
"""The step that finds too much held for now."""
NUMBER: Mapping[str, int] = {
    rule: rules.index(rule) for rules in (ABOVE_CEILING, AT_CEILING) for rule in rules
}
"""Which of Amounts a rule is about."""
_COUNTED = {CPU: "CPU cores", MEMORY: "of memory", STORAGE: "of ephemeral storage", PODS: "pods"}


def binding(facts: TeamFacts, waiters: Iterable[Waiter]) -> tuple[tuple[int, int], ...]:
    """The numbers of the resources, with their ceilings, of which all these waiters together want more than is left: all
    others are no limit to any of them, whoever starts.
    """
    asked = [waiter.most for waiter in waiters if waiter.most]
    return tuple(
        (number, ceiling)
        for number, ceiling in enumerate(facts.ceilings)
        if ceiling is not None and facts.held[number] + sum(most[number] for most in asked) > ceiling
    )


def above(limits: Iterable[tuple[int, int]], held: Amounts, most: Amounts) -> str:
    """The rule by which it must not start beside what is held; empty where it may."""
    if not most:
        return ""
    full = ""
    for number, ceiling in limits:
        if most[number] > ceiling:
            return ABOVE_CEILING[number]
        if not full and most[number] and held[number] + most[number] > ceiling:
            full = AT_CEILING[number]
    return full


def told(number: int, amount: int) -> str:
    """An amount of this resource as people read it."""
    return f"{count_of(OTHERS[number], amount)} {_COUNTED[OTHERS[number]]}"


def scaled(most: Amounts, part: int, whole: int) -> Amounts:
    """What `part` of `whole` equal pods ask for."""
    return tuple(amount * part // whole for amount in most)
