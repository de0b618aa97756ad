"""Rows of the page about manifests: what an article asks for, what asks the portal for the same, where it is then.

`ManifestRow.at` leads into the object that the portal makes of the request; `ManifestRow.holds` is what must stand there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from workloads.placement import FlavorFacts, Sharing

Step = str | int | Mapping[str, str]
"""A key, an index, or of a list the item that has these values."""

GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
JOB_POD: tuple[Step, ...] = ("spec", "template", "spec")
MASTER: tuple[Step, ...] = ("spec", "pytorchReplicaSpecs", "Master")
WORKER: tuple[Step, ...] = ("spec", "pytorchReplicaSpecs", "Worker")
MASTER_POD: tuple[Step, ...] = (*MASTER, "template", "spec")
WORKER_POD: tuple[Step, ...] = (*WORKER, "template", "spec")
_TERMS: tuple[Step, ...] = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    0,
    "matchExpressions",
)
FIRST: tuple[Step, ...] = ("containers", 0)
GPU = "nvidia.com/gpu"
SHM_PATH = "/dev/shm"  # noqa: S108 - a mount point
RETRIES = "the portal starts the next attempt itself, so that a run that was interrupted loses no retry"
LATEST = "a tag that names one build; with `latest` two attempts may run different code"


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """What the article's manifest asks for, the fields of the request that say it, and where it is in the object."""

    asks: str
    request: str
    at: tuple[Step, ...] = ()
    holds: Any = None
    but: str = ""
    """What is different, and why."""
    of: str = ""
    """Kind of the object, where it is not the primary one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    title: str
    source: str
    flavor: FlavorFacts
    body: Mapping[str, Any]
    rows: Sequence[ManifestRow]
    gang_scheduler: str = ""
    """That of the cluster for which it is shown."""
    shows: str = ""
    """Kind of the object that is shown whole, where it is not the primary one."""


def flavor(name: str, selector: Mapping[str, Sequence[str]], **capacity: Any) -> FlavorFacts:
    """Whole GPUs on the nodes with these labels, which the usual taint guards."""
    return FlavorFacts(
        name=name,
        resource=GPU,
        gpu_fraction=Fraction(1),
        sharing=Sharing.NONE,
        node_selector=selector,
        tolerations=[GPU_TAINT],
        capacity=capacity or {"on-demand": {}},
    )


def limit(pod: tuple[Step, ...], resource: str) -> tuple[Step, ...]:
    """Where the first container's limit is."""
    return (*pod, *FIRST, "resources", "limits", resource)


def request(pod: tuple[Step, ...], resource: str) -> tuple[Step, ...]:
    """Where the first container's request is."""
    return (*pod, *FIRST, "resources", "requests", resource)


def env(pod: tuple[Step, ...], name: str) -> tuple[Step, ...]:
    """Where the value of a variable is."""
    return (*pod, *FIRST, "env", {"name": name}, "value")


def term(pod: tuple[Step, ...], key: str) -> tuple[Step, ...]:
    """Where the values of a required label are."""
    return (*pod, *_TERMS, {"key": key}, "values")


def shm(pod: tuple[Step, ...], size: str) -> list[ManifestRow]:
    """Memory-backed shared memory of that size."""
    volume = {"name": "shm"}
    return [
        ManifestRow(
            f"`emptyDir` of medium Memory, {size}",
            f'`shm: "{size}"`',
            (*pod, "volumes", volume, "emptyDir"),
            {"medium": "Memory", "sizeLimit": size},
            "it counts against the memory limit, which must be larger",
        ),
        ManifestRow(
            "at `/dev/shm`", "by itself", (*pod, *FIRST, "volumeMounts", volume, "mountPath"), SHM_PATH
        ),
    ]


def tolerates(pod: tuple[Step, ...]) -> ManifestRow:
    """The usual taint of GPU nodes."""
    return ManifestRow(
        "toleration of the taint `nvidia.com/gpu`",
        "`flavor`",
        (*pod, "tolerations", {"key": GPU}),
        GPU_TAINT,
        "the flavor has it, so that nobody has to write it",
    )


def mounts(pod: tuple[Step, ...], *claims: tuple[str, str]) -> list[ManifestRow]:
    """Claims in the order of the request, each with the path at which it is mounted."""
    rows = []
    for index, (claim, path) in enumerate(claims):
        volume = {"name": f"claim-{index}"}
        name: tuple[Step, ...] = (*pod, "volumes", volume, "persistentVolumeClaim", "claimName")
        where: tuple[Step, ...] = (*pod, *FIRST, "volumeMounts", volume, "mountPath")
        rows += [
            ManifestRow(f"claim `{claim}`", f"`volumes[{index}].claim`", name, claim),
            ManifestRow(f"at `{path}`", f"`volumes[{index}].path`", where, path),
        ]
    return rows
