"""What a run takes over from an earlier one: its request with edits, its name, its newest checkpoint. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from itertools import count
from typing import Any

from jobs.specs import TrainingRunSpec
from workloads.podspec.grammar import WORKLOAD_NAME_LENGTH_MAX, is_inside
from workloads.podspec.specs import Json

STEM_LENGTH_MAX = 30
_NUMBERED = re.compile(r"(?P<stem>.*?)-(?P<number>[1-9][0-9]{0,5})", re.ASCII)


def merged(stored: Json, edits: Json) -> dict[str, Any]:
    """The stored request with the edits: a JSON merge patch (RFC 7396), in which null takes a field away.

    The null of a field that is not there stays, so that the check of the request can refuse a name it does not know.
    """
    body = {key: value for key, value in stored.items() if value is not None}
    for key, value in edits.items():
        if value is None and key in body:
            del body[key]
        elif isinstance(value, Mapping):
            before = body.get(key)
            body[key] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            body[key] = value
    return body


def stem_of(name: str) -> str:
    """What copies of a run of this name are called alike, however long their numbers are."""
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


def claim_around(spec: TrainingRunSpec, path: str) -> str | None:
    """The claim in which `path` lies in the run's pods; None where no claim is mounted around it."""
    mounts = {volume.path: volume.claim for volume in spec.mounted_volumes}
    around = [mount for mount in mounts if is_inside(path, mount)]
    return mounts[max(around, key=len)] if around else None
