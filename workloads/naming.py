"""What a copy of a run or an endpoint is called."""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import count

from teams.models import Team
from workloads.models import Workload
from workloads.podspec.grammar import WORKLOAD_NAME_LENGTH_MAX
from workloads.states import FINAL

STEM_LENGTH_MAX = 30
_NUMBERED = re.compile(r"(?P<stem>.*?)-(?P<number>[1-9][0-9]{0,5})", re.ASCII)


def free_name(name: str, *, kind: str, team: Team) -> str:
    """`name` with the next number that no live workload of the kind in the team has."""
    alike = Workload.objects.filter(kind=kind, team=team, name__startswith=stem_of(name))
    return next_name(name, set(alike.exclude(phase__in=FINAL).values_list("name", flat=True)))


def stem_of(name: str) -> str:
    """What copies of one of this name are called alike, however long their numbers are."""
    return _split(name)[0][:STEM_LENGTH_MAX].rstrip("-")


def next_name(name: str, taken: Container[str]) -> str:
    """`name-2`, or the first number after it that is not taken; a number at the end of the name is counted on."""
    stem, number = _split(name)
    tails = (f"-{following}" for following in count(number + 1))
    return next(
        candidate
        for tail in tails
        if (candidate := f"{stem[: WORKLOAD_NAME_LENGTH_MAX - len(tail)].rstrip('-')}{tail}") not in taken
    )


def _split(name: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(name)
    return (match["stem"], int(match["number"])) if match else (name, 1)
