"""Preflight checks of the Prometheus server that the portal asks: GPU metrics, and the gateway's."""

from __future__ import annotations

from django.conf import settings
from django.db.models import QuerySet

from cluster import prometheus
from cluster.errors import ClusterRejected, ClusterUnavailable
from cluster.preflight import Check, ClusterFacts, register
from foundation.models import PlatformSettings
from telemetry import gpu_metrics, served_metrics
from workloads.models import PodRecord, ResourceFlavor
from workloads.placement import Sharing


@register(id="prometheus", title="Prometheus answers")
def prometheus_answers(_facts: ClusterFacts) -> Check:
    """Check whether the server at PORTAL_PROMETHEUS_URL answers."""
    title = "Prometheus answers"
    if settings.PROMETHEUS_URL is None:
        fix = "Set PORTAL_PROMETHEUS_URL where there is one."
        return Check(
            "prometheus", title, "warn", "No Prometheus is configured: nothing of GPU metrics is known.", fix
        )
    try:
        version = prometheus.version(settings.PROMETHEUS_URL, token=settings.PROMETHEUS_TOKEN)
    except ClusterUnavailable as error:
        return Check(
            "prometheus", title, "fail", error.message, "Correct PORTAL_PROMETHEUS_URL, or start the server."
        )
    return Check("prometheus", title, "ok", f"Prometheus {version} answers.")


@register(id="gpu-metrics", title="GPU metrics")
def gpu_metrics_labelled(facts: ClusterFacts) -> Check:
    """Check whether DCGM's metrics are scraped, with pod labels as the setting `dcgm_labels` says.

    Otherwise a scaler by `gpu-utilization` finds no pod of its endpoint: it reads 0 % and removes replicas.
    """
    name, title = "gpu-metrics", "GPU metrics"
    job = PlatformSettings.current().dcgm_job
    asked = _asked(
        gpu_metrics.series_by_pod(job), gpu_metrics.series_of_slices(job), gpu_metrics.SERIES_BY_JOB
    )
    if isinstance(asked, str):
        return Check(name, title, "warn", asked)
    series, slices, of_jobs = asked
    jobs = sorted(element.labels.get("job", "") for element in of_jobs)
    if jobs and not series:
        detail = f"Prometheus has DCGM's metrics of other jobs alone ({', '.join(jobs)}) than the setting dcgm_job names."
        return Check(name, title, "fail", detail, "Set dcgm_job to the job that scrapes dcgm-exporter.")
    if not series:
        fix = "Install dcgm-exporter (part of the GPU operator), and have Prometheus scrape it."
        return Check(
            name, title, "warn", "Prometheus has none of DCGM's: no scaling by gpu-utilization.", fix
        )
    if len(jobs) > 1 and not job:
        detail = f"They come from {len(jobs)} jobs ({', '.join(jobs)}): any pod that is scraped may say of others' GPUs what it likes."
        return Check(
            name, title, "warn", detail, "Set dcgm_job to the job or jobs that scrape dcgm-exporter."
        )
    if not slices and ResourceFlavor.objects.filter(enabled=True, sharing=Sharing.MIG).exists():
        fix = f"Add {gpu_metrics.MIG_SLICE} to the counters of dcgm-exporter."
        return Check(
            name, title, "warn", f"MIG slices have none: {gpu_metrics.MIG_SLICE} is not scraped.", fix
        )
    pods = PodRecord.objects.of(facts.client.cluster).filter(gone_at=None)
    return _labels_as_set(name, title, [element.labels for element in series], pods)


def _labels_as_set(name: str, title: str, series: list[dict[str, str]], pods: QuerySet[PodRecord]) -> Check:
    seen = gpu_metrics.labels_seen(series, pods.values_list("namespace", "name"))
    wanted = PlatformSettings.current().dcgm_labels
    if seen is None:
        return Check(name, title, "ok", "Scraped; how they name pods is seen as soon as a GPU is in use.")
    label = "pod" if seen == PlatformSettings.DcgmLabels.PLAIN else f"{gpu_metrics.EXPORTED_PREFIX}pod"
    if seen == wanted:
        return Check(name, title, "ok", f"Scraped; the pod of a GPU is in `{label}`.")
    detail = f"The pod of a GPU is in `{label}`, and the setting dcgm_labels says {wanted}: scalers by gpu-utilization see 0 %."
    return Check(
        name, title, "fail", detail, f"Set dcgm_labels to {seen}, in the admin console or the bootstrap file."
    )


@register(id="gateway-metrics", title="Gateway metrics")
def gateway_metrics(_facts: ClusterFacts) -> Check:
    """Check whether the gateway's metrics are scraped, and often enough for a rate.

    A rate needs two samples. With fewer, a scaler by `requests-per-second` reads 0 and removes replicas.
    """
    name, title = "gateway-metrics", "Gateway metrics"
    asked = _asked(served_metrics.GATEWAYS, served_metrics.FEWEST_SAMPLES)
    if isinstance(asked, str):
        return Check(name, title, "warn", asked)
    known, fewest = asked
    if not known:
        fix = "Have Prometheus scrape /-/metrics of the live process."
        return Check(
            name, title, "warn", "Prometheus has none: no scaling by in-flight or requests-per-second.", fix
        )
    if not fewest:
        return Check(name, title, "ok", "Scraped; how often is seen after 5 minutes.")
    samples = int(fewest[0].value)
    detail = f"Scraped {samples} times in 5 minutes."
    if samples >= served_metrics.SAMPLES_MIN:
        return Check(name, title, "ok", detail)
    fix = "Set scrape_interval of the gateway and of the endpoints' pods to a minute or less, better to 15 s."
    return Check(
        name, title, "warn", f"{detail} Rates need two, and one may be lost: scalers may read 0.", fix
    )


def _asked(*queries: str) -> list[list[prometheus.Element]] | str:
    """The answer of Prometheus to each query, or why it could not be asked."""
    if settings.PROMETHEUS_URL is None:
        return "Not known without a Prometheus."
    try:
        return [
            prometheus.query(settings.PROMETHEUS_URL, query, token=settings.PROMETHEUS_TOKEN)
            for query in queries
        ]
    except (ClusterUnavailable, ClusterRejected) as error:
        return f"Could not be asked: {error.message}"
