"""What preflight asks of the portal's own catalogue: flavors that match nothing, or have no price."""

from __future__ import annotations

from django.conf import settings

from cluster import prometheus
from cluster.errors import ClusterUnavailable
from cluster.preflight import Check, Facts, register
from costs.models import PricedCard
from workloads.models import ResourceFlavor
from workloads.queries import observe, rooms_of


@register(id="flavor-nodes", title="Every flavor has nodes")
def flavor_nodes(_facts: Facts) -> Check:
    """Flavors that no observed node offers and that neither a declared block nor a NodePool could bring."""
    known = observe()
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
def flavor_prices(_facts: Facts) -> Check:
    """Flavors whose use cannot be billed."""
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


@register(id="prometheus", title="Prometheus answers")
def prometheus_answers(_facts: Facts) -> Check:
    """Whether the server that PORTAL_PROMETHEUS_URL names can be asked."""
    title = "Prometheus answers"
    if settings.PROMETHEUS_URL is None:
        fix = "Set PORTAL_PROMETHEUS_URL where there is one."
        return Check(
            "prometheus", title, "warn", "No Prometheus is configured: nothing of GPU metrics is known.", fix
        )
    try:
        found = prometheus.version(settings.PROMETHEUS_URL)
    except ClusterUnavailable as error:
        return Check(
            "prometheus", title, "fail", error.message, "Correct PORTAL_PROMETHEUS_URL, or start the server."
        )
    return Check("prometheus", title, "ok", f"Prometheus {found} answers.")
