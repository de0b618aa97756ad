"""The kinds that this cluster serves. Everything else answers 501 by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """One served resource: how it is addressed, and what may be asked of it."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    # Changes of its spec are counted.
    generation: bool = False
    # Served for a CustomResourceDefinition: other words for wrong types, no strategic merge.
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`jobs.batch`, as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """`Job.batch`, as validation messages name it."""
        return f"{self.name}.{self.group}" if self.group else self.name


def _kind(
    api_version: str, name: str, plural: str, short: str = "", subresources: str = "", **more: bool
) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(
        group, version, name, plural, short=tuple(short.split()), subresources=tuple(subresources.split()),
        **more,
    )  # fmt: skip


NAMESPACE = _kind("v1", "Namespace", "namespaces", "ns", "status", namespaced=False)
NODE = _kind("v1", "Node", "nodes", "no", "status", namespaced=False)
POD = _kind("v1", "Pod", "pods", "po", "status log eviction proxy", generation=True)
SERVICE = _kind("v1", "Service", "services", "svc", "status proxy")
CONFIG_MAP = _kind("v1", "ConfigMap", "configmaps", "cm")
SECRET = _kind("v1", "Secret", "secrets")
CLAIM = _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "status")
SERVICE_ACCOUNT = _kind("v1", "ServiceAccount", "serviceaccounts", "sa")
QUOTA = _kind("v1", "ResourceQuota", "resourcequotas", "quota", "status")
LIMIT_RANGE = _kind("v1", "LimitRange", "limitranges", "limits")
EVENT = _kind("v1", "Event", "events", "ev")
DEPLOYMENT = _kind("apps/v1", "Deployment", "deployments", "deploy", "status scale", generation=True)
REPLICA_SET = _kind("apps/v1", "ReplicaSet", "replicasets", "rs", "status scale", generation=True)
JOB = _kind("batch/v1", "Job", "jobs", "", "status", generation=True)
BUDGET = _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", "status", generation=True)
NETWORK_POLICY = _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol", generation=True)
PRIORITY_CLASS = _kind(
    "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", namespaced=False, generation=True
)
AUTOSCALER = _kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "status")
PYTORCH_JOB = _kind(
    "kubeflow.org/v1", "PyTorchJob", "pytorchjobs", "", "status", generation=True, custom=True
)
SCALED_OBJECT = _kind(
    "keda.sh/v1alpha1", "ScaledObject", "scaledobjects", "so", "status", generation=True, custom=True
)

KINDS = (
    NAMESPACE, NODE, POD, SERVICE, CONFIG_MAP, SECRET, CLAIM, SERVICE_ACCOUNT, QUOTA, LIMIT_RANGE, EVENT,
    DEPLOYMENT, REPLICA_SET, JOB, BUDGET, NETWORK_POLICY, PRIORITY_CLASS, PYTORCH_JOB,
    AUTOSCALER, SCALED_OBJECT,
)  # fmt: skip
BY_PATH = {(k.group, k.version, k.plural): k for k in KINDS}
BY_NAME = {(k.api_version, k.name): k for k in KINDS}
# Each group is served in one version.
GROUPS = {k.group: k.version for k in KINDS if k.group}
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def group_list() -> dict[str, Any]:
    """`/apis`."""
    groups = []
    for group, name in GROUPS.items():
        version = {"groupVersion": f"{group}/{name}", "version": name}
        groups.append({"name": group, "versions": [version], "preferredVersion": version})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def resource_list(group: str) -> dict[str, Any]:
    """`/api/v1` and `/apis/{group}/{version}`."""
    resources: list[dict[str, object]] = []
    for kind in (k for k in KINDS if k.group == group):
        resources.append({
            "name": kind.plural, "singularName": kind.name.lower(), "namespaced": kind.namespaced,
            "kind": kind.name, "verbs": list(VERBS), "shortNames": list(kind.short),
        })  # fmt: skip
        for sub in kind.subresources:
            served = {"eviction": "Eviction", "scale": "Scale"}.get(sub, kind.name)
            verbs = {"eviction": ["create"], "log": ["get"]}.get(sub, ["get", "patch", "update"])
            resources.append({
                "name": f"{kind.plural}/{sub}", "singularName": "", "namespaced": kind.namespaced,
                "kind": served, "verbs": verbs,
            })  # fmt: skip
    return {
        "kind": "APIResourceList", "apiVersion": "v1", "resources": resources,
        "groupVersion": f"{group}/{GROUPS[group]}" if group else "v1",
    }  # fmt: skip
