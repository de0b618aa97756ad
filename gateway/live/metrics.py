"""What this process has counted of the requests to endpoints, as Prometheus reads it (PORTAL_METRICS_BIND)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from uuid import UUID

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from gateway import latency
from telemetry import served_metrics as names


@dataclass(slots=True)
class _Now:
    """Gauges of one endpoint."""

    in_flight: int = 0
    held: int = 0


@dataclass(slots=True)
class _Ended:
    """What one revision has answered since the process began."""

    codes: Counter[str] = field(default_factory=Counter)
    histogram: list[int] = field(default_factory=list)
    seconds: float = 0.0


class Metrics(Collector):
    """Counts in memory. An endpoint that is gone takes its series along."""

    def __init__(self) -> None:
        self._now: dict[UUID, _Now] = {}
        self._ended: dict[tuple[UUID, int], _Ended] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def began(self, endpoint: UUID) -> None:
        """A request has come."""
        self._of(endpoint).in_flight += 1

    def ended(self, endpoint: UUID, revision: int, *, status: int, seconds: float | None) -> None:
        """It has ended after `seconds`, None where the endpoint was not asked."""
        self._of(endpoint).in_flight -= 1
        ended = self._ended.setdefault((endpoint, revision), _Ended())
        ended.codes[f"{status:03}"] += 1
        if seconds is not None:
            latency.add(ended.histogram, seconds)
            ended.seconds += seconds

    def hold(self, endpoint: UUID, change: int) -> None:
        """One more request waits for the endpoint to wake (1), or one fewer (-1)."""
        self._of(endpoint).held += change

    def endpoints(self) -> set[UUID]:
        return set(self._now)

    def forget(self, endpoints: Collection[UUID]) -> None:
        """Drops the series of those that have nothing in flight."""
        gone = {
            endpoint for endpoint in endpoints if endpoint in self._now and self._now[endpoint].in_flight == 0
        }
        for endpoint in gone:
            del self._now[endpoint]
        for key in [key for key in self._ended if key[0] in gone]:
            del self._ended[key]

    def exposition(self) -> bytes:
        """The text."""
        return generate_latest(self._registry)

    @override
    def collect(self) -> Iterable[Metric]:
        of_endpoint = [names.ENDPOINT_LABEL]
        of_revision = [names.ENDPOINT_LABEL, names.REVISION_LABEL]
        in_flight = GaugeMetricFamily(
            names.REQUESTS_IN_FLIGHT, "Requests that have come and not ended.", labels=of_endpoint
        )
        held = GaugeMetricFamily(
            names.REQUESTS_HELD, "Of those, the ones that wait for the endpoint to wake.", labels=of_endpoint
        )
        total = CounterMetricFamily(
            names.REQUESTS_TOTAL, "Requests that have ended.", labels=[*of_revision, names.CODE_LABEL]
        )
        duration = HistogramMetricFamily(
            names.REQUEST_DURATION, "From the first byte in to the last byte out.", labels=of_revision
        )
        # Another thread asks: what the event loop goes on changing is copied, each in one step.
        for endpoint, now in list(self._now.items()):
            in_flight.add_metric([str(endpoint)], now.in_flight)
            held.add_metric([str(endpoint)], now.held)
        for (endpoint, revision), ended in list(self._ended.items()):
            labels = [str(endpoint), str(revision)]
            for code, count in list(ended.codes.items()):
                total.add_metric([*labels, code], count)
            duration.add_metric(labels, _cumulated(list(ended.histogram)), sum_value=ended.seconds)
        up = GaugeMetricFamily(names.GATEWAY_UP, "1 of each process that serves.", value=1)
        return (up, in_flight, held, total, duration)

    def _of(self, endpoint: UUID) -> _Now:
        return self._now.setdefault(endpoint, _Now())


def _cumulated(histogram: list[int]) -> list[tuple[str, float]]:
    filled = [*histogram, *([0] * (len(latency.BOUNDS) + 1 - len(histogram)))]
    bounds = [*map(str, latency.BOUNDS), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, accumulate(filled), strict=True)]
