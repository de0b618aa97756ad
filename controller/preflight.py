"""Preflight checks of the portal's own configuration: its flavors, its settings, and its Prometheus server."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import QuerySet

from cluster import prometheus
from cluster.errors import ClusterRejected, ClusterUnavailable
from cluster.preflight import Check, ClusterFacts, register
from controller import gpu_metrics, served_metrics
from costs.models import PricedCard
from foundation.models import PlatformSettings
from workloads.models import PodRecord, ResourceFlavor
from workloads.node_capacity import observe, rooms_of
from workloads.placement import Sharing


@register(id="flavor-nodes", title="Every flavor has nodes")
def flavor_nodes(facts: ClusterFacts) -> Check:
    """Check for flavors that no observed node offers and neither a declared block nor a NodePool could provide."""
    known = observe(cluster=facts.client.cluster)
    lacking = [
        f"{flavor.name} ({capacity_type})"
        for flavor in ResourceFlavor.objects.filter(enabled=True)
        for capacity_type in sorted(flavor.capacity)
        if not rooms_of(flavor, capacity_type, known=known).largest
    ]
    if not lacking:
        return Check("flavor-nodes", "Every flavor has nodes", "ok", "Each flavor is offered by a node.")
    return Check(
        "flavor-nodes",
        "Every flavor has nodes",
        "warn",
        f"No node offers: {', '.join(lacking)}.",
        "Correct the flavor's labels or resource name, or declare `provisionable` where nodes come from zero.",
    )


@register(id="flavor-prices", title="Every flavor has a price")
def flavor_prices(_facts: ClusterFacts) -> Check:
    """Check for flavors whose use cannot be billed."""
    priced = set(PricedCard.objects.filter(prices__isnull=False).values_list("card", "capacity_type"))
    lacking = sorted(
        f"{flavor.card} ({capacity_type})"
        for flavor in ResourceFlavor.objects.filter(enabled=True)
        for capacity_type in flavor.capacity
        if (flavor.card, capacity_type) not in priced
    )
    if not lacking:
        return Check("flavor-prices", "Every flavor has a price", "ok", "Each card has a price.")
    return Check(
        "flavor-prices",
        "Every flavor has a price",
        "fail",
        f"No price: {', '.join(lacking)}. Their use is accepted, and its cost is unknown.",
        "Set a price in the admin console, by POST /api/v1/prices/, or in the bootstrap file.",
    )


@register(id="internal-url", title="Pods reach the portal")
def pods_reach_the_portal(_facts: ClusterFacts) -> Check:
    """Check whether PORTAL_INTERNAL_URL can be an address for pods; network reachability is not tested."""
    title, url = "Pods reach the portal", settings.INTERNAL_URL
    why = None if settings.EMBEDDED_CLUSTER else unreachable_for_pods(urlsplit(url).hostname or "")
    if why is None:
        return Check("internal-url", title, "ok", f"Pods are told {url}.")
    detail = f"Pods are told {url}: {why} What runs report of checkpoints and progress does not arrive."
    return Check("internal-url", title, "warn", detail, "Set PORTAL_INTERNAL_URL to where pods reach REST.")


def unreachable_for_pods(host: str) -> str | None:
    """The reason why no pod can reach such a host; None if one might."""
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost" or host.endswith(".localhost")
        if not loopback and "." not in host:
            return "a name without a dot is looked up in the pod's own namespace, where the portal is not."
    return "that is the pod itself." if loopback else None


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
        version = prometheus.version(settings.PROMETHEUS_URL)
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
    asked = _asked(gpu_metrics.SERIES_BY_POD, gpu_metrics.SERIES_OF_SLICES)
    if isinstance(asked, str):
        return Check(name, title, "warn", asked)
    series, slices = asked
    if not series:
        fix = "Install dcgm-exporter (part of the GPU operator), and have Prometheus scrape it."
        return Check(
            name, title, "warn", "Prometheus has none of DCGM's: no scaling by gpu-utilization.", fix
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
        return [prometheus.query(settings.PROMETHEUS_URL, query) for query in queries]
    except (ClusterUnavailable, ClusterRejected) as error:
        return f"Could not be asked: {error.message}"
