"""What a run takes over from an earlier one: its request with edits, its newest checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.specs import TrainingRunSpec
from workloads.podspec.grammar import is_inside
from workloads.podspec.specs import Json


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


def claim_around(spec: TrainingRunSpec, path: str) -> str | None:
    """The claim in which `path` lies in the run's pods; None where no claim is mounted around it."""
    mounts = {volume.path: volume.claim for volume in spec.mounted_volumes}
    around = [mount for mount in mounts if is_inside(path, mount)]
    return mounts[max(around, key=len)] if around else None
