"""What Prometheus answers, kept for some seconds; after a failure it is left alone for as long.

Only the queries of `telemetry.gpu_queries` come here.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.core.cache import cache

from cluster import prometheus
from cluster.errors import ClusterRejected, ClusterUnavailable
from cluster.names import DEFAULT_CLUSTER
from foundation.models import PlatformSettings
from telemetry.gpu_metrics import labels_seen, series_by_pod
from telemetry.gpu_queries import EXPORTED, PLAIN, PodLabels
from workloads.models import PodRecord

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 15
AWAY_SECONDS: Final = 15
LABELS_KEPT_SECONDS: Final = 300
BUDGET_SECONDS: Final = 6.0
"""All questions of one page or request together."""
_AWAY: Final = "telemetry:away"
_LABELS: Final = "telemetry:labels"

Samples = dict[datetime, float]


class UnknownError(Exception):
    """Prometheus could not be asked; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """One card's value: now, and by the labels of its series."""

    labels: Mapping[str, str]
    value: float


class PrometheusReader:
    """The questions of one page, request or periodic job; raises UnknownError for each that has no answer."""

    def __init__(self, *, budget_seconds: float = BUDGET_SECONDS) -> None:
        if settings.PROMETHEUS_URL is None:
            raise UnknownError("The portal knows no Prometheus (PORTAL_PROMETHEUS_URL).")
        if why := cache.get(_AWAY):
            raise UnknownError(str(why))
        self._url: str = settings.PROMETHEUS_URL
        self._until = time.monotonic() + budget_seconds

    def now(self, query: str) -> list[MeasuredValue]:
        """The current value of every series; never from the cache."""
        found = self._ask(lambda left: prometheus.query(self._url, query, timeout_seconds=left, **_token()))
        return [MeasuredValue(element.labels, element.value) for element in found]

    def over(
        self, query: str, *, begin: datetime, end: datetime, step: timedelta
    ) -> list[tuple[Mapping[str, str], Mapping[float, float]]]:
        """Labels of every series, and its values by Unix time; at most `KEPT_SECONDS` old."""
        key = _key(query, begin, end, step)
        kept = _read_kept(cache.get(key))
        if kept is None:
            lines = self._ask(
                lambda left: prometheus.query_range(
                    self._url, query, begin=begin, end=end, step=step, timeout_seconds=left, **_token()
                )
            )
            kept = [(line.labels, dict(line.samples)) for line in lines]
            cache.set(key, [[labels, list(samples.items())] for labels, samples in kept], KEPT_SECONDS)
        return kept

    def labels(self) -> PodLabels:
        """How the series name their pods: as seen, or as the setting says while no known pod uses a GPU."""
        seen, job = cache.get(_LABELS), PlatformSettings.current().dcgm_job
        if seen not in PlatformSettings.DcgmLabels.values:
            series = [dict(each.labels) for each in self.now(series_by_pod(job))]
            pods = PodRecord.objects.of(DEFAULT_CLUSTER).filter(gone_at=None).values_list("namespace", "name")
            seen = labels_seen(series, pods)
            if seen is None:
                return _scheme(PlatformSettings.current().dcgm_labels, job)
            cache.set(_LABELS, seen, LABELS_KEPT_SECONDS)
        return _scheme(seen, job)

    def _ask(self, question: Any) -> Any:
        left = self._until - time.monotonic()
        if left <= 0:
            raise UnknownError("Prometheus took too long to answer.")
        try:
            return question(min(left, prometheus.TIMEOUT_SECONDS))
        except ClusterUnavailable as error:
            message = f"Prometheus does not answer: {error.message}"
            log.warning("prometheus.away", extra={"error": error.message})
            cache.set(_AWAY, "Prometheus does not answer.", AWAY_SECONDS)
            raise UnknownError(message) from error
        except ClusterRejected as error:
            log.warning("prometheus.refused", extra={"error": error.message})
            raise UnknownError("Prometheus refuses the query.") from error


def _token() -> dict[str, str]:
    return {"token": settings.PROMETHEUS_TOKEN}


def _scheme(name: str, job: str) -> PodLabels:
    return replace(PLAIN if name == PlatformSettings.DcgmLabels.PLAIN else EXPORTED, job=job)


def _key(query: str, begin: datetime, end: datetime, step: timedelta) -> str:
    text = f"{query}\n{begin.timestamp()}\n{end.timestamp()}\n{step.total_seconds()}"
    return f"telemetry:series:{hashlib.sha256(text.encode()).hexdigest()}"


def _read_kept(kept: Any) -> list[tuple[Mapping[str, str], Mapping[float, float]]] | None:
    """What the cache has, if it is what was put there."""
    try:
        return [
            (
                {str(k): str(v) for k, v in labels.items()},
                {float(at): float(value) for at, value in samples},
            )
            for labels, samples in kept
        ]
    except (TypeError, ValueError, AttributeError):
        return None
