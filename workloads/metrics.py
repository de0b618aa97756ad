"""Metrics of the cluster's objects and of the queue for Prometheus, read from the rows at every scrape."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count, Min, Sum
from prometheus_client.core import Metric
from typing_extensions import override

from foundation import clock
from foundation.http.metrics import GaugeCollector, ScrapedGauge, register_collector
from workloads.models import WatchCursor, Workload
from workloads.states import Desired, Phase
from workloads.strays import strays

STRAY_OBJECTS = ScrapedGauge("portal_stray_objects", "Objects with the portal's mark and of no workload.")
STRAY_UNITS = ScrapedGauge("portal_stray_units", "GPUs that their pods hold.")
WATCH_AGE = ScrapedGauge(
    "portal_watch_age_seconds",
    "Seconds since the watcher last saw a sign of life of a watch, by cluster and kind of object.",
    ("cluster", "kind"),
)
_POOL = ("flavor", "capacity")
GPUS_WAITING = ScrapedGauge(
    "portal_gpus_waiting", "Units that workloads in the queue ask for.", ("team", *_POOL)
)
QUEUE_LENGTH = ScrapedGauge("portal_queue_length", "Workloads in the queue that are to run.", _POOL)
OLDEST_WAIT = ScrapedGauge(
    "portal_queue_oldest_wait_seconds", "Seconds for which the one that waits longest has waited.", _POOL
)


class StrayCollector(GaugeCollector):
    """Both are 0 as long as every object of the portal belongs to a workload."""

    figures = (STRAY_OBJECTS, STRAY_UNITS)

    @override
    def collect(self) -> Iterable[Metric]:
        totals = strays()
        yield STRAY_OBJECTS.family(totals.count)
        yield STRAY_UNITS.family(totals.units)


class WatchCollector(GaugeCollector):
    """How old what the portal knows of the cluster is."""

    figures = (WATCH_AGE,)

    @override
    def collect(self) -> Iterable[Metric]:
        now = clock.now()
        seen = WatchCursor.objects.order_by("cluster", "kind").values_list("cluster", "kind", "seen_at")
        ages = {(cluster, kind): max(0.0, (now - at).total_seconds()) for cluster, kind, at in seen if at}
        yield WATCH_AGE.family(ages)


class QueueCollector(GaugeCollector):
    """What waits; a pool for which nothing waits has no series. Without a GPU the flavor is empty."""

    figures = (GPUS_WAITING, QUEUE_LENGTH, OLDEST_WAIT)

    @override
    def collect(self) -> Iterable[Metric]:
        now = clock.now()
        line = Workload.objects.filter(phase=Phase.QUEUED.value, desired=Desired.RUN.value)
        names = ("team__slug", "flavor__name", "capacity_type")
        units: dict[tuple[str, ...], float] = {}
        length: dict[tuple[str, ...], float] = {}
        oldest: dict[tuple[str, ...], float] = {}
        sums = (
            line.order_by()
            .values_list(*names)
            .annotate(asked=Sum("units"), count=Count("pk"), since=Min("queued_at"))
        )
        for team, flavor, capacity_type, asked, count, since in sums:
            pool = (flavor or "", capacity_type)
            units[team, *pool] = asked
            length[pool] = length.get(pool, 0) + count
            oldest[pool] = max(oldest.get(pool, 0.0), (now - since).total_seconds())
        yield GPUS_WAITING.family(units)
        yield QUEUE_LENGTH.family(length)
        yield OLDEST_WAIT.family(oldest)


register_collector(StrayCollector())
register_collector(WatchCollector())
register_collector(QueueCollector())
