"""What Prometheus reads about GPUs at every scrape."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count
from prometheus_client.core import Metric
from typing_extensions import override

from foundation.http.metrics import GaugeCollector, ScrapedGauge, register_collector
from foundation.models import PlatformSettings
from telemetry.models import Alert, IdleHold

GPUS_IDLE = ScrapedGauge(
    "portal_gpus_idle",
    "Cards that pods hold and do nothing with, by the rule `idle`, as last seen.",
    ("team", "flavor"),
)
EXPORTER_JOB = ScrapedGauge(
    "portal_gpu_exporter_job",
    "1 of each job that the setting `dcgm_job` names; none where DCGM's metrics of any job count.",
    ("name",),
)
ALERTS_OPEN = ScrapedGauge("portal_gpu_alerts_open", "Open alerts about GPUs of workloads.", ("rule",))


class IdleCollector(GaugeCollector):
    """Read from the rows that the look at all cards writes, and from the settings."""

    figures = (GPUS_IDLE, ALERTS_OPEN, EXPORTER_JOB)

    @override
    def collect(self) -> Iterable[Metric]:
        holds = IdleHold.objects.order_by().values_list("team__slug", "workload__flavor__name")
        yield GPUS_IDLE.family(
            {(team, flavor or ""): count for team, flavor, count in holds.annotate(count=Count("pk"))}
        )
        alerts = Alert.objects.filter(closed_at=None).order_by().values_list("rule")
        yield ALERTS_OPEN.family({(rule,): count for rule, count in alerts.annotate(count=Count("pk"))})
        jobs = PlatformSettings.current().dcgm_job.split("|")
        yield EXPORTER_JOB.family({(job,): 1 for job in jobs if job})


register_collector(IdleCollector())
