"""Preflight checks of the portal's own configuration: its flavors and its settings."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from django.conf import settings

from cluster.preflight import Check, ClusterFacts, register
from costs.models import PricedCard
from foundation.pod_security import PodSecurity
from teams.models import Team
from teams.pod_security import hindrances, level_of, level_of_platform
from tenancy.closed_addresses import unresolved_stores
from workloads.models import ResourceFlavor
from workloads.nodes.capacity import observe, rooms_of

_NAMED_MAX = 5
IPNetwork = IPv4Network | IPv6Network


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


@register(id="trusted-proxies", title="Proxies are trusted alone")
def trusted_proxies(facts: ClusterFacts) -> Check:
    """Check whether pods have addresses that PORTAL_TRUSTED_PROXIES trusts: they could say of any client that it asks."""
    name, title = "trusted-proxies", "Proxies are trusted alone"
    trusted = settings.TRUSTED_PROXIES
    if not trusted:
        return Check(
            name, title, "ok", "PORTAL_TRUSTED_PROXIES is empty: X-Forwarded-For counts for nothing."
        )
    networks = {
        ip_network(text, strict=False)
        for node in facts.nodes
        for text in (node["spec"].get("podCIDRs") or [node["spec"].get("podCIDR")])
        if text
    }
    if not networks:
        return Check(
            name, title, "ok", "Nodes do not say which networks their pods have: none could be compared."
        )
    shared = sorted({str(each) for each in networks for proxy in trusted if _overlap(each, proxy)})
    if not shared:
        return Check(name, title, "ok", "No pod has an address that is trusted.")
    shown = ", ".join(shared[:_NAMED_MAX]) + (", …" if len(shared) > _NAMED_MAX else "")
    detail = (
        f"Pods have addresses of {shown}, which PORTAL_TRUSTED_PROXIES trusts: any of them may forge X-Forwarded-For, and be "
        "counted, held and told of in the audit trail as somebody else."
    )
    fix = "Name the proxies alone in PORTAL_TRUSTED_PROXIES, and let a NetworkPolicy keep teams' pods from the portal's own port."
    return Check(name, title, "warn", detail, fix)


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)


@register(id="closed-stores", title="Pods cannot reach the portal's stores")
def closed_stores(_facts: ClusterFacts) -> Check:
    """Check whether the addresses of the database and of Redis are known, which the policies of teams close."""
    name, title = "closed-stores", "Pods cannot reach the portal's stores"
    unknown = unresolved_stores()
    if not unknown:
        return Check(
            name,
            title,
            "ok",
            "Their addresses are known, and closed to every team whose egress does not open them.",
        )
    detail = f"{', '.join(unknown)} cannot be looked up here: egress of pods stays open to what it names, until it can."
    return Check(
        name, title, "warn", detail, "Let the worker's name service know it, or give its address instead."
    )


@register(id="pod-security-profile", title="Pod Security of teams")
def pod_security_profile(_facts: ClusterFacts) -> Check:
    """Which profile the namespaces of teams enforce, and what keeps them from restricted."""
    name, title = "pod-security-profile", "Pod Security of teams"
    hindering, level = hindrances(), level_of_platform()
    lax = sorted(team.slug for team in Team.objects.all() if level_of(team) == PodSecurity.BASELINE)
    why = "; ".join(f"{each.kind}: {each.why}" for each in hindering)
    if level == PodSecurity.BASELINE:
        because = why or "the setting pod_security says so, and every kind that is offered passes restricted"
        fix = "; ".join(f"{each.kind}: {each.fix}" for each in hindering) or "Set pod_security to automatic."
        return Check(name, title, "warn", f"baseline, with warnings of restricted: {because}.", fix)
    if lax:
        detail = f"restricted, and baseline for {', '.join(lax)}: their own pod_security or may_run_as_root says so."
        return Check(name, title, "warn", detail, "Set pod_security of these teams to automatic.")
    trust = f", as the setting pod_security says. Refused unless that was mended: {why}" if why else ""
    return Check(name, title, "ok", f"restricted{trust}.")
