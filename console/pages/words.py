"""The words of the pages: phases with their icons, starts and changes (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from foundation.money import format_usd
from foundation.number_words import span_words
from policy.levers import SUSPEND
from workloads.podrequests import CPU, count_of, units_of
from workloads.states import Phase


@dataclass(frozen=True, slots=True)
class PhaseLook:
    """`icon` is the symbol's name in static/portal/icons.svg."""

    icon: str


PHASES: Mapping[str, PhaseLook] = MappingProxyType(
    {
        Phase.QUEUED.value: PhaseLook("clock"),
        Phase.ADMITTED.value: PhaseLook("ticket"),
        Phase.STARTING.value: PhaseLook("loader"),
        Phase.RUNNING.value: PhaseLook("play"),
        Phase.STOPPING.value: PhaseLook("stop"),
        Phase.SUSPENDED.value: PhaseLook("pause"),
        Phase.SUCCEEDED.value: PhaseLook("check"),
        Phase.FAILED.value: PhaseLook("alert"),
        Phase.CANCELLED.value: PhaseLook("ban"),
    }
)


@dataclass(frozen=True, slots=True)
class VerdictLook:
    """A verdict in words: for a workload that waits already, and for one that a user considers submitting."""

    icon: str
    waiting: str
    preview: str


VERDICTS: Mapping[str, VerdictLook] = MappingProxyType(
    {
        "admit": VerdictLook("check", "Starts any moment", "Starts now"),
        "wait": VerdictLook("clock", "Waits", "Will wait"),
        "never": VerdictLook("ban", "Cannot start as things are", "Can never start"),
    }
)

FACTS: Mapping[str, str] = MappingProxyType(
    {
        "requested": "Asked for",
        "guaranteed": "Guaranteed to the team",
        "used": "Used by the team",
        "borrowed": "Borrowed of that",
        "available": "Available to the team",
        "free": "Free on nodes",
        "largest_free_block": "Most free on one node",
        "largest_block": "Most that a node can hold",
        "requested_cpu": "CPU of each pod",
        "requested_memory": "Memory of each pod",
        "requested_ephemeral_storage": "Ephemeral storage of each pod",
        "largest_free_cpu": "Most CPU free on such a node",
        "largest_free_memory": "Most memory free on such a node",
        "largest_free_ephemeral_storage": "Most ephemeral storage free on such a node",
        "provisionable": "New nodes can bring",
        "ahead": "Waiting ahead",
        "longest_time_limit": "Longest time limit that fits",
        "requested_pods": "Pods asked for",
        "held_cpu": "CPU that the team holds",
        "held_memory": "Memory that the team holds",
        "held_ephemeral_storage": "Ephemeral storage that the team holds",
        "held_pods": "Pods that the team holds",
        "ceiling_cpu": "CPU that the team may hold",
        "ceiling_memory": "Memory that the team may hold",
        "ceiling_ephemeral_storage": "Ephemeral storage that the team may hold",
        "ceiling_pods": "Pods that the team may hold",
        "needed_to_start": "Money needed to start",
        "needed_at_time_limit": "Money for its whole time limit",
        "budget_left": "Left of the team's budget",
        "budget": "The team's budget",
    }
)
"""What the numbers behind a verdict are."""

_BESIDE = {"memory": "of memory", "ephemeral_storage": "of ephemeral storage"}
_BEGIN_WITH_A_WORD = frozenset({"time_limit_seconds", "max_replicas"})
_SECONDS = re.compile(r"\b([0-9]{1,12}) s\b", re.ASCII)
_STEPS = ((172_800, 3600), (3600, 300), (120, 60), (0, 5))
"""How precisely a start is stated, from so many seconds on."""


def cores_of(quantity: str) -> str:
    """`3.6` of `3600m`; what is no quantity stays as it was typed."""
    try:
        return count_of(CPU, units_of(CPU, quantity))
    except ValueError:
        return quantity


def cpu_words(quantity: str) -> str:
    """`3.6 cores` of `3600m`, exactly."""
    cores = cores_of(quantity)
    return f"{cores} core{'' if cores == '1' else 's'}"


def readable(message: str) -> str:
    """A sentence with its longer durations in hours and minutes: `86400 s` becomes `1d`."""
    return _SECONDS.sub(lambda match: span_words(int(match[1])), message.replace("start in 0 s", "start now"))


def start_words(p50: datetime, p90: datetime, *, now: datetime) -> str:
    """`now`, `within 5m`, `in about 20m` or `in 20m to 45m`, as precise as an estimate deserves."""
    early = max(0, int((p50 - now).total_seconds()))
    late = max(early, int((p90 - now).total_seconds()))
    if late < 1:
        return "now"
    step = next(step for least, step in _STEPS if late >= least)
    if late - early < step:
        return f"in about {span_words(max(step, (late + step // 2) // step * step))}"
    # Outwards, so that the words promise no more than the numbers.
    begin, end = early // step * step, -(-late // step) * step
    if begin == 0:
        return f"within {span_words(end)}"
    return f"in {span_words(begin)} to {span_words(end)}"


def held_words(rate: float) -> str:
    """How often past estimates held: `9 of 10 past estimates held`, never better than it was."""
    permille = int(rate * 1000 + 1e-6)
    if permille >= 1000:
        return "all past estimates held"
    if permille % 100 == 0:
        return f"{permille // 100} of 10 past estimates held"
    return f"{permille // 10} % of past estimates held"


def change_words(change: Mapping[str, int | str], current: Mapping[str, int | str | None]) -> str:
    """What a lever changes, beside what is asked for now: `4 GPUs instead of 8`."""
    parts = []
    for name, value in change.items():
        if name == "ask_for_quota":
            parts.append(f"{value} more {'unit' if value == 1 else 'units'} of quota")
            continue
        if name == SUSPEND:
            parts.append(f"Suspend {value}, your own run")
            continue
        if name == "ask_for_budget":
            parts.append(f"{format_usd(int(value), 2)} more of the team's budget")
            continue
        before = current.get(name)
        instead = f" instead of {_bare(name, before)}" if before not in (None, "") else ""
        parts.append(f"{_valued(name, value)}{instead}")
    words = " and ".join(parts)
    # The name of a flavor stays as it is written.
    return words[:1].upper() + words[1:] if next(iter(change), "") in _BEGIN_WITH_A_WORD else words


def _valued(name: str, value: int | str) -> str:
    plural = "" if value == 1 else "s"
    if name == "gpus_per_replica":
        return f"{value} GPU{plural}"
    if name == "replicas":
        return f"{value} pod{plural}"
    if name == "max_replicas":
        return f"at most {value} replica{plural}"
    if name == "time_limit_seconds":
        return f"a time limit of {span_words(int(value))}"
    if name == "cpu":
        return cpu_words(str(value))
    return f"{value} {_BESIDE[name]}" if name in _BESIDE else str(value)


def _bare(name: str, value: int | str | Mapping[str, str] | None) -> str:
    if isinstance(value, Mapping):
        value = value.get("request") or value.get("limit")
    if name == "cpu":
        return cores_of(str(value))
    return span_words(int(value or 0)) if name == "time_limit_seconds" else str(value)
