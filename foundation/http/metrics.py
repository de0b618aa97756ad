"""Prometheus metrics of the portal itself."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from typing_extensions import override

from foundation import clock
from foundation.models import Heartbeat

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

REQUESTS = Counter(
    "portal_http_requests_total", "Requests answered, by route and status.", ["method", "route", "status"]
)
REQUEST_SECONDS = Histogram(
    "portal_http_request_seconds",
    "Time to answer.",
    ["method", "route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_scrape_collectors: list[Collector] = []


def observe_request(*, method: str, route: str, status: int, seconds: float) -> None:
    """Count one answered request. Routes are patterns, never paths, so that there are few."""
    shown_method = method if method in _METHODS else "OTHER"
    shown_route = route or "unmatched"
    REQUESTS.labels(shown_method, shown_route, str(status)).inc()
    REQUEST_SECONDS.labels(shown_method, shown_route).observe(seconds)


def register_collector(collector: Collector) -> None:
    """Have `collector` asked at every scrape; for figures that are read from the database."""
    _scrape_collectors.append(collector)


def exposition() -> bytes:
    """The text that Prometheus reads: all processes together where PROMETHEUS_MULTIPROC_DIR is set."""
    at_scrape = CollectorRegistry(auto_describe=False)
    for collector in _scrape_collectors:
        at_scrape.register(collector)
    return generate_latest(_own_registry()) + generate_latest(at_scrape)


class HeartbeatCollector(Collector):
    """Seconds since each process last said that it is alive."""

    @override
    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "portal_heartbeat_age_seconds",
            "Seconds since a process last said that it is alive.",
            labels=["process"],
        )
        now = clock.now()
        for process, at in Heartbeat.objects.order_by("process").values_list("process", "at"):
            family.add_metric([process], max(0.0, (now - at).total_seconds()))
        yield family


def _own_registry() -> CollectorRegistry:
    try:
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    except ValueError:
        return REGISTRY
    return together


register_collector(HeartbeatCollector())
