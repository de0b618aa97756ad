"""What Prometheus reads about quotas at every scrape, taken from the rows."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F, Sum
from prometheus_client.core import Metric
from typing_extensions import override

from foundation import clock
from foundation.http.metrics import GaugeCollector, ScrapedGauge, register_collector
from quotas.models import Claim, ClaimState, Fence
from quotas.queries import hit_rate, leaks

CLAIMS_WITHOUT_WORKLOAD = ScrapedGauge(
    "portal_claims_without_workload", "Open claims of workloads that hold nothing any more."
)
WORKLOADS_WITHOUT_CLAIM = ScrapedGauge(
    "portal_workloads_without_claim", "Workloads that run on units which they have not claimed."
)
COUNTERS_OFF = ScrapedGauge(
    "portal_quota_counters_off",
    "Quotas and cohorts whose counters are not the sum of their open claims.",
)
FENCE_DRIFT = ScrapedGauge(
    "portal_fence_drift",
    "Teams whose ResourceQuota in the cluster is not what their quotas add up to.",
)
_BY = ("team", "flavor", "capacity")
GPUS_HELD = ScrapedGauge("portal_gpus_held", "Units of claims whose pods have started.", _BY)
GPUS_RESERVED = ScrapedGauge(
    "portal_gpus_reserved",
    "Units that are claimed and not in use: of what has been admitted and not started, and headroom of endpoints, lent or not.",
    _BY,
)
ESTIMATES_HELD = ScrapedGauge(
    "portal_estimates_held_ratio",
    "Share of start estimates of the last 30 days whose workload started by its p90; no series while there is none.",
)


class QuotaCollector(GaugeCollector):
    """Figures that are 0 as long as claims, counters and the fences in the cluster are what they must be."""

    figures = (CLAIMS_WITHOUT_WORKLOAD, WORKLOADS_WITHOUT_CLAIM, COUNTERS_OFF, FENCE_DRIFT)

    @override
    def collect(self) -> Iterable[Metric]:
        counts = leaks()
        yield CLAIMS_WITHOUT_WORKLOAD.family(counts.claims_without_workload)
        yield WORKLOADS_WITHOUT_CLAIM.family(counts.workloads_without_claim)
        yield COUNTERS_OFF.family(counts.counters_off)
        yield FENCE_DRIFT.family(sum(not fence.in_step for fence in Fence.objects.all()))


class HoldingCollector(GaugeCollector):
    """Who holds what, and how well estimates hold."""

    figures = (GPUS_HELD, GPUS_RESERVED, ESTIMATES_HELD)

    @override
    def collect(self) -> Iterable[Metric]:
        held: dict[tuple[str, ...], float] = {}
        reserved: dict[tuple[str, ...], float] = {}
        names = ("team__slug", "quota__flavor__name", "quota__capacity_type")
        still = Claim.objects.exclude(state=ClaimState.RELEASED).filter(quota__isnull=False).order_by()
        sums = still.values_list(*names, "state").annotate(
            firm=Sum(F("units") - F("headroom")), spare=Sum("headroom")
        )
        for *by, state, firm, headroom in sums:
            key = tuple(by)
            active = state == ClaimState.ACTIVE
            held[key] = held.get(key, 0) + (firm if active else 0)
            reserved[key] = reserved.get(key, 0) + headroom + (0 if active else firm)
        yield GPUS_HELD.family(held)
        yield GPUS_RESERVED.family(reserved)
        yield ESTIMATES_HELD.family(hit_rate(now=clock.now()))


register_collector(QuotaCollector())
register_collector(HoldingCollector())
