"""What Prometheus reads about quotas at every scrape, taken from the rows."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from foundation.http.metrics import register_collector
from quotas.models import Fence
from quotas.queries import leaks


class QuotaCollector(Collector):
    """Figures that are 0 as long as claims, counters and the fences in the cluster are what they must be."""

    @override
    def collect(self) -> Iterable[Metric]:
        counts = leaks()
        yield GaugeMetricFamily(
            "portal_claims_without_workload",
            "Open claims of workloads that hold nothing any more.",
            value=counts.claims_without_workload,
        )
        yield GaugeMetricFamily(
            "portal_workloads_without_claim",
            "Workloads that run on units which they have not claimed.",
            value=counts.workloads_without_claim,
        )
        yield GaugeMetricFamily(
            "portal_quota_counters_off",
            "Quotas and cohorts whose counters are not the sum of their open claims.",
            value=counts.counters_off,
        )
        yield GaugeMetricFamily(
            "portal_fence_drift",
            "Teams whose ResourceQuota in the cluster is not what their quotas add up to.",
            value=sum(not fence.in_step for fence in Fence.objects.all()),
        )


register_collector(QuotaCollector())
