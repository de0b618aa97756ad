"""DCGM's GPU utilization metrics: their names, and how Prometheus labels the pod that uses the GPU. Pure.

dcgm-exporter names the pod of a GPU in `pod` and `namespace`. Prometheus sets these two labels itself, to those of the
exporter's own pod, and keeps the exporter's as `exported_pod` and `exported_namespace`, unless the scrape has
`honorLabels: true`. The exporter sets no such label for a GPU that no pod uses, so `pod` alone is ambiguous.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

WHOLE_GPU: Final = "DCGM_FI_DEV_GPU_UTIL"
"""Percent. DCGM does not report it for MIG devices."""
MIG_SLICE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""0 to 1, of the slice itself."""
EXPORTED_PREFIX: Final = "exported_"

SERIES_BY_POD: Final = (
    f"count by (namespace, pod, exported_namespace, exported_pod) ({WHOLE_GPU} or {MIG_SLICE})"
)
SERIES_OF_SLICES: Final = f"count({MIG_SLICE})"


def labels_seen(series: Collection[Mapping[str, str]], pods: Collection[tuple[str, str]]) -> str | None:
    """`exported` or `plain`, by the labels of SERIES_BY_POD; None while no known pod uses a GPU.

    `pods` are namespace and name of existing pods. A `pod` label that names one is not the exporter's own pod.
    """
    if any(labels.get(f"{EXPORTED_PREFIX}pod") for labels in series):
        return "exported"
    known = set(pods)
    if any((labels.get("namespace", ""), labels.get("pod", "")) in known for labels in series):
        return "plain"
    return None
