"""The cluster and Prometheus in /readyz: when they last answered. Neither makes the portal unready."""

from __future__ import annotations

import threading
import time

from django.conf import settings
from django.db.models import Max

from cluster import prometheus
from cluster.errors import ClusterUnavailable
from cluster.names import DEFAULT_CLUSTER
from foundation import clock
from foundation.errors import Unavailable
from foundation.http.health import CHECK_TIMEOUT_SECONDS, register_readiness
from workloads.models import WatchCursor

STALE_SECONDS = 60
"""A watch that is silent for 28 seconds counts as broken; of all watches together one is never silent that long."""
ASKED_EVERY_SECONDS = 10.0


def check_cluster() -> str:
    """The age of the last watch event; a request to /readyz never causes a request to the cluster."""
    seen = WatchCursor.objects.of(DEFAULT_CLUSTER).aggregate(last=Max("seen_at"))["last"]
    if seen is None:
        raise Unavailable("It has answered the watcher nothing yet.")
    age = max(0, round((clock.now() - seen).total_seconds()))
    if age > STALE_SECONDS:
        raise Unavailable(f"Its last answer came {age} s ago.")
    return f"Its last answer came {age} s ago."


class PrometheusCheck:
    """Queries Prometheus a few times a minute at most, however often /readyz is requested."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._answered_at: float | None = None

    def __call__(self) -> str:
        with self._lock:
            now = time.monotonic()
            if self._asked_at is None or now - self._asked_at >= ASKED_EVERY_SECONDS:
                self._ask()
            now = time.monotonic()
            if self._answered_at is None:
                raise Unavailable("It has not answered this process.")
            age = round(now - self._answered_at)
            if self._answered_at < (self._asked_at or 0):
                raise Unavailable(f"It does not answer; its last answer came {age} s ago.")
        return f"Its last answer came {age} s ago."

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        try:
            prometheus.version(
                str(settings.PROMETHEUS_URL),
                token=settings.PROMETHEUS_TOKEN,
                timeout_seconds=CHECK_TIMEOUT_SECONDS,
            )
        except ClusterUnavailable:
            return
        self._answered_at = time.monotonic()


def register() -> None:
    """Register both checks with /readyz, Prometheus only if it is configured."""
    register_readiness("cluster", check_cluster, required=False)
    if settings.PROMETHEUS_URL:
        register_readiness("prometheus", PrometheusCheck(), required=False)
