"""DCGM's GPU metrics: their names and units, and how Prometheus labels the pod that uses the GPU. Pure.

dcgm-exporter names the pod of a GPU in `pod` and `namespace`. Prometheus sets these two labels itself, to those of the
exporter's own pod, and keeps the exporter's as `exported_pod` and `exported_namespace`, unless the scrape has
`honorLabels: true`. The exporter sets no such label for a GPU that no pod uses, so `pod` alone is ambiguous.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

WHOLE_GPU: Final = "DCGM_FI_DEV_GPU_UTIL"
"""Percent. DCGM does not report it for MIG devices."""
MIG_SLICE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""0 to 1, of the slice itself."""
EXPORTED_PREFIX: Final = "exported_"

MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"
"""MiB."""
MEMORY_FREE: Final = "DCGM_FI_DEV_FB_FREE"
"""MiB; with what is used it is what a pod can have of the card, without what the driver keeps."""
TEMPERATURE: Final = "DCGM_FI_DEV_GPU_TEMP"
POWER: Final = "DCGM_FI_DEV_POWER_USAGE"
SM_CLOCK: Final = "DCGM_FI_DEV_SM_CLOCK"
TENSOR_ACTIVE: Final = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
"""0 to 1."""
COPY: Final = "DCGM_FI_DEV_MEM_COPY_UTIL"
"""Percent."""
XID: Final = "DCGM_FI_DEV_XID_ERRORS"
"""The number of the last XID error; 0 while there was none."""
MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GpuMetric:
    """What is shown of a card: its name in REST, its title and unit, and the factor from what DCGM exports."""

    name: str
    title: str
    unit: str
    series: tuple[str, ...]
    """Names of DCGM's metrics; several are added up."""
    factor: float = 1
    highest: bool = False
    """Whether the highest value of a step counts, and not the average."""


UTILIZATION: Final = GpuMetric("utilization", "GPU utilization", "percent", (WHOLE_GPU,))
UTILIZATION_OF_SLICE: Final = GpuMetric("utilization", "GPU utilization", "percent", (MIG_SLICE,), 100)
"""The same of a MIG slice: how busy its engine is."""
SHOWN: Final = (
    UTILIZATION,
    GpuMetric("memory_used", "GPU memory in use", "bytes", (MEMORY_USED,), MEBIBYTE),
    GpuMetric("memory_total", "GPU memory", "bytes", (MEMORY_USED, MEMORY_FREE), MEBIBYTE),
    GpuMetric("temperature", "Temperature", "celsius", (TEMPERATURE,)),
    GpuMetric("power", "Power", "watts", (POWER,)),
    GpuMetric("sm_clock", "SM clock", "megahertz", (SM_CLOCK,)),
    GpuMetric("tensor_activity", "Tensor core activity", "percent", (TENSOR_ACTIVE,), 100),
    GpuMetric("copy_utilization", "Memory copy utilization", "percent", (COPY,)),
    GpuMetric("xid", "Last XID error", "number", (XID,), highest=True),
)
NAMES: Final = tuple(metric.name for metric in SHOWN)
XID_MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        13: "the program touched memory that is not its own, or an instruction failed",
        31: "the program read or wrote an address that is not mapped",
        43: "the driver stopped the program after an error of its own making",
        45: "the program was ended before it had cleaned up",
        48: "the card's memory had an error that could not be corrected: have the node drained",
        63: "a row of the card's memory was replaced; the card needs a reset to use the new one",
        64: "a row of the card's memory could not be replaced: have the node drained",
        74: "the link between cards (NVLink) failed: have the node looked at",
        79: "the card has fallen off the bus: have the node drained",
        94: "an error in memory was contained: only this program was hit",
        95: "an error in memory was not contained: have the node drained",
        119: "the card's own processor (GSP) did not answer: have the node looked at",
    }
)
"""NVIDIA's XID numbers that say what to do. Any other is shown as its number."""

SERIES_BY_JOB: Final = f"count by (job) ({WHOLE_GPU} or {MIG_SLICE})"


def of_job(job: str) -> str:
    """The matcher of series that the exporter's scrape brought, by the setting `dcgm_job`; empty for any.

    Prometheus sets `job` itself: what a pod publishes cannot choose it, unless its scrape honours labels.
    """
    return f'job=~"{job.replace(".", "[.]")}"' if job else ""


def by_job(series: str, job: str) -> str:
    """The selector of such series."""
    return f"{series}{{{of_job(job)}}}" if job else series


def series_by_pod(job: str) -> str:
    either = f"{by_job(WHOLE_GPU, job)} or {by_job(MIG_SLICE, job)}"
    return f"count by (namespace, pod, exported_namespace, exported_pod) ({either})"


def series_of_slices(job: str) -> str:
    return f"count({by_job(MIG_SLICE, job)})"


def labels_seen(series: Collection[Mapping[str, str]], pods: Collection[tuple[str, str]]) -> str | None:
    """`exported` or `plain`, by the labels of `series_by_pod`; None while no known pod uses a GPU.

    `pods` are namespace and name of existing pods. A `pod` label that names one is not the exporter's own pod.
    """
    if any(labels.get(f"{EXPORTED_PREFIX}pod") for labels in series):
        return "exported"
    known = set(pods)
    if any((labels.get("namespace", ""), labels.get("pod", "")) in known for labels in series):
        return "plain"
    return None
