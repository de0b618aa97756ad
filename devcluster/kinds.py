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


NAMESPACE = Kind(
    "", "v1", "Namespace", "namespaces", namespaced=False, short=("ns",), subresources=("status",)
)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False, short=("no",), subresources=("status",))
POD = Kind(
    "",
    "v1",
    "Pod",
    "pods",
    short=("po",),
    subresources=("status", "log", "eviction", "proxy"),
    generation=True,
)
SERVICE = Kind("", "v1", "Service", "services", short=("svc",), subresources=("status", "proxy"))
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", short=("cm",))
SECRET = Kind("", "v1", "Secret", "secrets")
CLAIM = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), subresources=("status",)
)
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", short=("sa",))
QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", short=("quota",), subresources=("status",))
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", short=("limits",))
EVENT = Kind("", "v1", "Event", "events", short=("ev",))
DEPLOYMENT = Kind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    short=("deploy",),
    subresources=("status", "scale"),
    generation=True,
)
REPLICA_SET = Kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    short=("rs",),
    subresources=("status", "scale"),
    generation=True,
)
JOB = Kind("batch", "v1", "Job", "jobs", subresources=("status",), generation=True)
BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", short=("pdb",), subresources=("status",),
    generation=True,
)  # fmt: skip
NETWORK_POLICY = Kind(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", short=("netpol",), generation=True
)
PRIORITY_CLASS = Kind(
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    namespaced=False,
    short=("pc",),
    generation=True,
)
PYTORCH_JOB = Kind(
    "kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", subresources=("status",), generation=True, custom=True
)
AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", short=("hpa",),
    subresources=("status",),
)  # fmt: skip
SCALED_OBJECT = Kind(
    "keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", short=("so",), subresources=("status",), generation=True,
    custom=True,
)  # fmt: skip

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
