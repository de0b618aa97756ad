"""Metrics of the cluster's objects for Prometheus, read from the rows at every scrape."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from foundation.http.metrics import register_collector
from workloads.strays import strays


class StrayCollector(Collector):
    """Both are 0 as long as every object of the portal belongs to a workload."""

    @override
    def collect(self) -> Iterable[Metric]:
        totals = strays()
        yield GaugeMetricFamily(
            "portal_stray_objects", "Objects with the portal's mark and of no workload.", value=totals.count
        )
        yield GaugeMetricFamily("portal_stray_units", "GPUs that their pods hold.", value=totals.units)


register_collector(StrayCollector())
