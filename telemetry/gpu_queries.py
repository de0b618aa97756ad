"""The queries about GPUs, and nothing else is ever asked: templates whose only variables are names that are checked,
whole seconds, and metrics of the table. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from telemetry.gpu_metrics import (
    EXPORTED_PREFIX,
    MEMORY_FREE,
    MEMORY_USED,
    MIG_SLICE,
    TEMPERATURE,
    UTILIZATION,
    UTILIZATION_OF_SLICE,
    WHOLE_GPU,
    GpuMetric,
    by_job,
    of_job,
)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
WINDOW_SECONDS_MIN: Final = 120
"""Holds a sample also where one is scraped a minute, which is Prometheus' default."""
CARD_LABELS: Final = ("Hostname", "UUID", "gpu", "GPU_I_ID", "GPU_I_PROFILE", "modelName")
"""What tells one card, or one slice of it, from others."""


@dataclass(frozen=True, slots=True)
class PodLabels:
    """The two labels that name the pod of a GPU."""

    namespace: str
    pod: str
    job: str = ""
    """Whose series are believed, by the setting `dcgm_job`; empty for everybody's."""

    def of(self, series: str) -> str:
        """The selector of such series."""
        return by_job(series, self.job)

    @property
    def by(self) -> str:
        return f"by ({', '.join((self.namespace, self.pod, *CARD_LABELS))})"


EXPORTED: Final = PodLabels(f"{EXPORTED_PREFIX}namespace", f"{EXPORTED_PREFIX}pod")
PLAIN: Final = PodLabels("namespace", "pod")


def of_pods(labels: PodLabels, namespace: str, pods: Collection[str]) -> str:
    """The matchers of exactly these pods. ValueError for what cannot be the name of one."""
    for name in (namespace, *pods):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a pod or namespace.")
    listed = "|".join(sorted(name.replace(".", "[.]") for name in pods))
    believed = f",{of_job(labels.job)}" if labels.job else ""
    return f'{{{labels.namespace}="{namespace}",{labels.pod}=~"{listed}"{believed}}}'


def metric_of(metric: GpuMetric, *, is_mig: bool) -> GpuMetric:
    """The metric as it is measured: a MIG slice has no utilization of a GPU, but of its own engine."""
    return UTILIZATION_OF_SLICE if metric is UTILIZATION and is_mig else metric


def over_steps(metric: GpuMetric, labels: PodLabels, matchers: str, *, step_seconds: int) -> str:
    """The metric of each card, at the end of a step over this step; a short one with what was scraped just before."""
    function = "max_over_time" if metric.highest else "avg_over_time"
    window = max(step_seconds, WINDOW_SECONDS_MIN)
    parts = [f"max {labels.by} ({function}({name}{matchers}[{window}s]))" for name in metric.series]
    return _times(" + ".join(parts), metric.factor)


def _times(expression: str, factor: float) -> str:
    return expression if factor == 1 else f"({expression}) * {factor:.15g}"


# Of all cards at once: what alerts, idle holds and summaries go by.


def _extreme(series: str, labels: PodLabels, window: int, function: str) -> str:
    """Over a whole window, of cards that were measured at its beginning and are still: others have no answer yet."""
    each, series = f"max {labels.by}", labels.of(series)
    return (
        f"{each} ({function}_over_time({series}[{window}s]))"
        f" and {each} ({series} offset {window}s) and {each} ({series})"
    )


def utilization_over(labels: PodLabels, *, window_seconds: int, function: str) -> str:
    """Percent, as the window's highest (`max`), average (`avg`) or lowest (`min`): of whole cards, and of slices their engine's."""
    whole = _extreme(WHOLE_GPU, labels, window_seconds, function)
    sliced = _extreme(MIG_SLICE, labels, window_seconds, function)
    return f"({whole}) or 100 * ({sliced})"


def memory_percent(labels: PodLabels, *, window_seconds: int, function: str) -> str:
    """The share of a card's memory that was in use through the window."""
    used = _extreme(MEMORY_USED, labels, window_seconds, function)
    return f"100 * ({used}) / ({memory_total_now(labels)})"


def temperature(labels: PodLabels, *, window_seconds: int, function: str) -> str:
    return _extreme(TEMPERATURE, labels, window_seconds, function)


def memory_now(labels: PodLabels) -> str:
    """MiB in use on every card, also those that no pod uses."""
    return f"max {labels.by} ({labels.of(MEMORY_USED)})"


def memory_total_now(labels: PodLabels) -> str:
    """MiB that every card has, without what the driver keeps."""
    return f"max {labels.by} ({labels.of(MEMORY_USED)}) + max {labels.by} ({labels.of(MEMORY_FREE)})"
