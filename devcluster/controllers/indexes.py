"""Numbers of an Indexed Job's pods, as the Job controller writes and reads them."""

from __future__ import annotations

from devcluster.objects import Obj

INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod."""


def numbered(spec: Obj, host: str) -> Obj:
    """The pod's spec with a name of its own and its number in the environment of every container."""
    number = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
    }
    spec = {**spec, "hostname": host}
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [
                {**container, "env": [*container.get("env", ()), number]} for container in spec[part]
            ]
    return spec


def index_of(pod: Obj) -> int:
    return int(pod["metadata"]["annotations"][INDEX])


def indexes_of(text: str) -> set[int]:
    """The indexes in a text like `0,2-4`."""
    indexes = set[int]()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes |= set(range(int(first), int(last or first) + 1))
    return indexes


def ranges(indexes: set[int]) -> str:
    """As a text like `0,2-4`."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)
