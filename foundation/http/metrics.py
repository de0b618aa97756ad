"""Prometheus metrics of the portal itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

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


@dataclass(frozen=True, slots=True)
class ScrapedGauge:
    """A gauge that is read from the rows at every scrape: its name, what it says, and its labels."""

    name: str
    says: str
    labels: tuple[str, ...] = ()

    def family(self, values: Mapping[Any, float] | float | None = None) -> GaugeMetricFamily:
        """With these values, by their labels in order as tuples; with none nothing is known."""
        family = GaugeMetricFamily(self.name, self.says, labels=self.labels)
        none: Mapping[Any, float] = {}
        by_labels = values if isinstance(values, Mapping) else none if values is None else {(): values}
        for labels, value in by_labels.items():
            family.add_metric(labels, value)
        return family


class GaugeCollector(Collector):
    """Gauges of one app: `figures` names them all, so that they are known before there is a database."""

    figures: ClassVar[tuple[ScrapedGauge, ...]] = ()

    def describe(self) -> Iterable[Metric]:
        return [figure.family() for figure in self.figures]


def scraped_figures() -> list[Metric]:
    """Every gauge that is read from the rows, without its values."""
    return [
        family
        for each in _scrape_collectors
        if isinstance(each, GaugeCollector)
        for family in each.describe()
    ]


def exposition() -> bytes:
    """The text that Prometheus reads: all processes together where PROMETHEUS_MULTIPROC_DIR is set."""
    at_scrape = CollectorRegistry(auto_describe=False)
    for collector in _scrape_collectors:
        at_scrape.register(collector)
    return generate_latest(_own_registry()) + generate_latest(at_scrape)


HEARTBEAT_AGE = ScrapedGauge(
    "portal_heartbeat_age_seconds", "Seconds since a process last said that it is alive.", ("process",)
)


class HeartbeatCollector(GaugeCollector):
    """Seconds since each process last said that it is alive."""

    figures = (HEARTBEAT_AGE,)

    @override
    def collect(self) -> Iterable[Metric]:
        now = clock.now()
        beats = Heartbeat.objects.order_by("process").values_list("process", "at")
        yield HEARTBEAT_AGE.family(
            {(process,): max(0.0, (now - at).total_seconds()) for process, at in beats}
        )


def _own_registry() -> CollectorRegistry:
    try:
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    except ValueError:
        return REGISTRY
    return together


register_collector(HeartbeatCollector())
