"""Manifests of a team namespace's guard rails: service account, quota and network policies. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.labels import GATEWAY, KIND, MANAGED_BY, MANAGER, METRICS_PORT, MONITORING, TEAM
from workloads.states import PRIORITY_VALUE

SERVICE_ACCOUNT = "mlportal-workload"
QUOTA_NAME = "mlportal-gpus"
LIMIT_RANGE_NAME = "mlportal-limits"
COUNTED = frozenset({"pods", "persistentvolumeclaims"})
"""Of a ResourceQuota's names those that stand without `requests.`."""
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_REQUESTED = {"cpu": "10m", "memory": "16Mi", "ephemeral-storage": "16Mi"}
"""Of a container that says nothing, as one that somebody injects: a namespace with a ResourceQuota refuses it otherwise."""

Manifest = dict[str, Any]


INFERENCE_ABOVE = 10_000
"""What serves is bound before what trains, whatever the priorities of both."""


def priority_class(priority: str, *, serves: bool = False) -> str:
    """Name of the PriorityClass for a portal priority: one for serving, another for training workloads."""
    return f"mlportal-inference-{priority}" if serves else f"mlportal-{priority}"


def build_priority_classes() -> list[Manifest]:
    """Two PriorityClasses per portal priority; they never preempt, because preemption is the portal's task."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {
                "name": priority_class(priority.value, serves=serves),
                "labels": {MANAGED_BY: MANAGER},
            },
            "value": value + INFERENCE_ABOVE if serves else value,
            "preemptionPolicy": "Never",
            "description": f"Portal priority {priority.value} of {'inference' if serves else 'training'}.",
        }
        for priority, value in PRIORITY_VALUE.items()
        for serves in (False, True)
    ]


def build_namespace(*, namespace: str, team_slug: str, pod_security: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace,
            "labels": {
                MANAGED_BY: MANAGER,
                TEAM: team_slug,
                "pod-security.kubernetes.io/enforce": pod_security,
                "pod-security.kubernetes.io/warn": "restricted",
            },
        },
    }


def build_guard_rails(
    *, namespace: str, team_slug: str, limits: Mapping[str, int], serving: Sequence[str]
) -> list[Manifest]:
    """ServiceAccount without a token, LimitRange, ResourceQuota per resource name, and network policies.

    `serving` are the workload kinds whose pods take requests. The ResourceQuota is a second limit, per resource name; the
    LimitRange comes before it, so that no pod is refused for what it leaves out.
    """
    labels = {MANAGED_BY: MANAGER, TEAM: team_slug}

    def named(kind: str, api_version: str, name: str, **body: Any) -> Manifest:
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}

    account = named("ServiceAccount", "v1", SERVICE_ACCOUNT, automountServiceAccountToken=False)
    hard = {
        name if name in COUNTED else f"requests.{name}": str(limit) for name, limit in sorted(limits.items())
    }
    quota = named("ResourceQuota", "v1", QUOTA_NAME, spec={"hard": hard})
    deny = named(
        "NetworkPolicy",
        "networking.k8s.io/v1",
        "mlportal-default-deny",
        spec={"podSelector": {}, "policyTypes": ["Ingress"]},
    )
    return [
        account,
        named("LimitRange", "v1", LIMIT_RANGE_NAME, spec={"limits": limit_items(limits)}),
        *([quota] if hard else []),
        deny,
        *(
            named("NetworkPolicy", "networking.k8s.io/v1", name, spec=spec)
            for name, spec in _openings(serving).items()
        ),
    ]


def limit_items(limits: Mapping[str, int]) -> list[Manifest]:
    """The items of the LimitRange: what a container that says nothing asks for, and no more in one than the team may have."""
    most = {name: str(limits[name]) for name in _OF_CONTAINERS if name in limits}
    container = {"type": "Container", "defaultRequest": _REQUESTED, **({"max": most} if most else {})}
    if "storage" not in limits:
        return [container]
    return [container, {"type": "PersistentVolumeClaim", "max": {"storage": str(limits["storage"])}}]


def _openings(serving: Sequence[str]) -> dict[str, Manifest]:
    """The ingress policies by name: who may reach pods that take requests, and on which ports.

    Ports are given by name, because each endpoint has other numbers. vLLM answers /metrics on its serving port, so
    only pods labelled for that are open to monitoring there.
    """
    if not serving:
        return {}
    return {
        "mlportal-endpoint-ingress": _opening(serving, {}, GATEWAY, ("http", "grpc")),
        "mlportal-endpoint-metrics": _opening(serving, {METRICS_PORT: "metrics"}, MONITORING, ("metrics",)),
        "mlportal-endpoint-metrics-http": _opening(serving, {METRICS_PORT: "http"}, MONITORING, ("http",)),
    }


def _opening(
    serving: Sequence[str], pods: Mapping[str, str], namespaces: str, ports: Sequence[str]
) -> Manifest:
    """NetworkPolicy that admits traffic to these pods on these ports from namespaces with the label."""
    return {
        "podSelector": {
            **({"matchLabels": dict(pods)} if pods else {}),
            "matchExpressions": [{"key": KIND, "operator": "In", "values": sorted(serving)}],
        },
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [{"namespaceSelector": {"matchLabels": {namespaces: "true"}}}],
                "ports": [{"port": port, "protocol": "TCP"} for port in ports],
            }
        ],
    }
