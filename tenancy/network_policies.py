"""What the pods of a team may reach, as a NetworkPolicy. Pure.

The policy selects every pod, so that what it does not open is closed. Policies add up: one that a run brings along opens
its own pods to each other and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from cluster.labels import MANAGED_BY, MANAGER, TEAM
from teams.workload_policy import API_SERVER, EVERYWHERE, METADATA, STORES

Manifest = dict[str, Any]
Network = IPv4Network | IPv6Network

EGRESS_NAME = "mlportal-egress"
METADATA_NETWORKS = (
    # Of AWS, GCP, Azure and others, and of node-local agents that hand out credentials.
    "169.254.0.0/16",
    "fe80::/10",
    "fd00:ec2::/32",
    "fd20:ce::254/128",
    "fd00:c1::a9fe:a9fe/128",
    # Azure's WireServer, Alibaba Cloud and Oracle Cloud have theirs elsewhere.
    "168.63.129.16/32",
    "100.100.100.200/32",
    "192.0.0.192/32",
)
"""Where the machines that pods run on get their own credentials from."""
NAME_SERVICE_NAMESPACES = ("kube-system", "openshift-dns")
NAME_SERVICE_LINK_LOCAL = "169.254.0.0/16"
"""Where a name server of the node itself listens; on its ports alone."""
_NAMESPACE = "kubernetes.io/metadata.name"
_EVERYWHERE = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """IP addresses, sorted, without those that mean the pod itself."""

    api_server: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    store_namespaces: tuple[str, ...] = ()
    """Namespaces of the cluster in which stores may run, by their names."""
    portal: tuple[str, ...] = ()
    portal_port: int = 80
    portal_namespaces: tuple[str, ...] = ()


def build_egress(*, namespace: str, team_slug: str, egress: Sequence[str], around: Surroundings) -> Manifest:
    """The policy of a team whose `egress` holds words of `teams.workload_policy` and networks."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": EGRESS_NAME,
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER, TEAM: team_slug},
        },
        "spec": {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [_name_service(), *_portal(around), *_asked_for(egress, around)],
        },
    }


def closed_networks(around: Surroundings) -> dict[str, tuple[str, ...]]:
    """What is closed unless a team's `egress` names it, by that word."""
    return {
        METADATA: METADATA_NETWORKS,
        API_SERVER: tuple(map(_host_network, around.api_server)),
        STORES: tuple(map(_host_network, around.stores)),
    }


def _asked_for(egress: Sequence[str], around: Surroundings) -> list[Manifest]:
    groups = closed_networks(around)
    opened = [network for word, networks in groups.items() if word in egress for network in networks]
    closed = [network for word, networks in groups.items() if word not in egress for network in networks]
    asked = [text for text in egress if text not in groups and text != EVERYWHERE]
    to: list[Manifest] = []
    if EVERYWHERE in egress:
        shut = [*around.portal_namespaces, *(() if STORES in egress else around.store_namespaces)]
        to += [_block(network, closed) for network in _EVERYWHERE]
        # Some network plugins take no pod for a part of any network.
        to.append(_namespaces("NotIn", shut) if shut else {"namespaceSelector": {}})
    to += [_block(network, closed) for network in sorted(asked)]
    to += [_block(network, ()) for network in sorted(opened)]
    if STORES in egress and around.store_namespaces:
        to.append(_namespaces("In", around.store_namespaces))
    return [{"to": to}] if to else []


def _name_service() -> Manifest:
    ports = [{"port": port, "protocol": protocol} for port in (53, 5353) for protocol in ("UDP", "TCP")]
    return {
        "to": [_namespaces("In", NAME_SERVICE_NAMESPACES), _block(NAME_SERVICE_LINK_LOCAL, ())],
        "ports": ports,
    }


def _portal(around: Surroundings) -> list[Manifest]:
    """PORTAL_INTERNAL_URL, where runs report: its addresses, or the pods behind it."""
    to = [_block(_host_network(address), ()) for address in around.portal]
    if around.portal_namespaces:
        to.append(_namespaces("In", around.portal_namespaces))
    return [{"to": to, "ports": [{"port": around.portal_port, "protocol": "TCP"}]}] if to else []


def _namespaces(operator: str, names: Iterable[str]) -> Manifest:
    expression = {"key": _NAMESPACE, "operator": operator, "values": sorted(set(names))}
    return {"namespaceSelector": {"matchExpressions": [expression]}}


def _block(network: str, closed: Iterable[str]) -> Manifest:
    """The network without those of the closed ones that lie inside of it. What an admin named exactly stays open."""
    whole = ip_network(network)
    inside = sorted({text for text in closed if _lies_inside(ip_network(text), whole)})
    return {"ipBlock": {"cidr": network, **({"except": inside} if inside else {})}}


def _lies_inside(inner: Network, outer: Network) -> bool:
    if isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network):
        return inner != outer and inner.subnet_of(outer)
    if isinstance(inner, IPv6Network) and isinstance(outer, IPv6Network):
        return inner != outer and inner.subnet_of(outer)
    return False


def _host_network(address: str) -> str:
    return str(ip_network(address))
