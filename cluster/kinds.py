"""The kinds that the portal addresses, and the request paths of their objects. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from typing_extensions import override

from cluster.errors import ClusterRejected
from cluster.names import is_path_segment


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """How a kind is addressed: `Job` of `batch/v1` lives under `/apis/batch/v1/namespaces/*/jobs`."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True
    controllers: tuple[str, ...] = field(default=(), compare=False)
    """What its controller is called where it is usually installed; empty for what the API server brings along."""

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def path(self, *, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """The request path of a collection, an object, or a subresource.

        Raises ClusterRejected for an impossible name, so no input of a user can leave its place in the path.
        """
        parts = ["apis" if self.group else "api", *self.api_version.split("/")]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        elif self.namespaced and name is not None:
            raise ClusterRejected(f"a {self.kind} is addressed by namespace and name")
        parts.append(self.plural)
        parts += [part for part in (name, sub) if part is not None]
        for part in parts:
            if not is_path_segment(part):
                raise ClusterRejected(f"{part[:80]!r} is not a name that a cluster object can have")
        return "/" + "/".join(quote(part, safe="") for part in parts)

    @property
    def address(self) -> str:
        """`batch/v1/Job`: what `named` finds it by."""
        return f"{self.api_version}/{self.kind}"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object by name; `namespace` is empty for cluster-wide kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


NAMESPACE = ResourceKind("v1", "Namespace", "namespaces", namespaced=False)
NODE = ResourceKind("v1", "Node", "nodes", namespaced=False)
POD = ResourceKind("v1", "Pod", "pods")
EVENT = ResourceKind("v1", "Event", "events")
SERVICE = ResourceKind("v1", "Service", "services")
CONFIG_MAP = ResourceKind("v1", "ConfigMap", "configmaps")
SECRET = ResourceKind("v1", "Secret", "secrets")
CLAIM = ResourceKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNT = ResourceKind("v1", "ServiceAccount", "serviceaccounts")
RESOURCE_QUOTA = ResourceKind("v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = ResourceKind("v1", "LimitRange", "limitranges")
JOB = ResourceKind("batch/v1", "Job", "jobs")
DEPLOYMENT = ResourceKind("apps/v1", "Deployment", "deployments")
REPLICA_SET = ResourceKind("apps/v1", "ReplicaSet", "replicasets")
DISRUPTION_BUDGET = ResourceKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = ResourceKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
PRIORITY_CLASS = ResourceKind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)

ROLE_BINDING = ResourceKind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
ENDPOINT_SLICE = ResourceKind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")

# Optional kinds: used only where the API serves them and the settings name them.
PYTORCH_JOB = ResourceKind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", controllers=("training-operator",))
TF_JOB = ResourceKind("kubeflow.org/v1", "TFJob", "tfjobs", controllers=("training-operator",))
MPI_JOB = ResourceKind("kubeflow.org/v1", "MPIJob", "mpijobs", controllers=("training-operator",))
# The MPI operator's own; its CRD has the same name, so that a cluster serves one of the two.
MPI_JOB_V2 = ResourceKind("kubeflow.org/v2beta1", "MPIJob", "mpijobs", controllers=("mpi-operator",))
TRAIN_JOB = ResourceKind(
    "trainer.kubeflow.org/v1alpha1",
    "TrainJob",
    "trainjobs",
    controllers=("kubeflow-trainer", "trainer-controller"),
)
SCALED_OBJECT = ResourceKind(
    "keda.sh/v1alpha1", "ScaledObject", "scaledobjects", controllers=("keda-operator",)
)
VOLCANO_GROUP = ResourceKind(
    "scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", controllers=("volcano-controllers",)
)
COSCHEDULING_GROUP = ResourceKind(
    "scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", controllers=("scheduler-plugins-controller",)
)
POD_MONITOR = ResourceKind(
    "monitoring.coreos.com/v1", "PodMonitor", "podmonitors", controllers=("prometheus-operator",)
)

POD_GROUPS: Mapping[str, ResourceKind] = {"volcano": VOLCANO_GROUP, "coscheduling": COSCHEDULING_GROUP}
"""The kind of the groups whose pods a gang scheduler places together, by the scheduler's name in the settings."""

# Served by the API server itself, but not by every server that answers like one.
AUTOSCALER = ResourceKind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")

# Karpenter's: read where the API serves them, never written.
NODE_POOL = ResourceKind("karpenter.sh/v1", "NodePool", "nodepools", namespaced=False)

CORE = (
    NAMESPACE,
    NODE,
    POD,
    EVENT,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    CLAIM,
    SERVICE_ACCOUNT,
    RESOURCE_QUOTA,
    LIMIT_RANGE,
    JOB,
    DEPLOYMENT,
    REPLICA_SET,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    PRIORITY_CLASS,
)
OPTIONAL = (
    PYTORCH_JOB,
    TF_JOB,
    MPI_JOB,
    MPI_JOB_V2,
    TRAIN_JOB,
    SCALED_OBJECT,
    VOLCANO_GROUP,
    COSCHEDULING_GROUP,
    POD_MONITOR,
)

_BY_NAME = {
    (kind.api_version, kind.kind): kind
    for kind in (*CORE, *OPTIONAL, AUTOSCALER, NODE_POOL, ROLE_BINDING, ENDPOINT_SLICE)
}


def every() -> Iterator[ResourceKind]:
    """All kinds known, core before optional."""
    yield from _BY_NAME.values()


def find(api_version: str, kind: str) -> ResourceKind:
    """The kind by its name in a manifest. Raises ClusterRejected for one that the portal does not write."""
    try:
        return _BY_NAME[api_version, kind]
    except KeyError:
        raise ClusterRejected(f"the portal does not know the kind {kind} of {api_version}") from None


def named(address: str) -> ResourceKind:
    """The kind by its `address`. Raises ClusterRejected for one that the portal does not know."""
    api_version, _, kind = address.rpartition("/")
    return find(api_version, kind)


def ref_of(manifest: Mapping[str, Any]) -> ObjectRef:
    """The address of the object that `manifest` describes. Raises ClusterRejected if it has none."""
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name")
    if not name:
        raise ClusterRejected(
            "a manifest needs a name; generateName is not used, as a repeated request makes two"
        )
    return ObjectRef(
        api_version=str(manifest.get("apiVersion", "")),
        kind=str(manifest.get("kind", "")),
        namespace=str(metadata.get("namespace") or ""),
        name=str(name),
    )


def object_path(ref: ObjectRef, *, sub: str | None = None) -> str:
    """The request path of one object. Raises ClusterRejected for an unknown kind or an impossible name."""
    kind = find(ref.api_version, ref.kind)
    return kind.path(namespace=ref.namespace if kind.namespaced else None, name=ref.name, sub=sub)


def collection_path(ref: ObjectRef) -> str:
    """The request path to which the object is posted."""
    kind = find(ref.api_version, ref.kind)
    if kind.namespaced and not ref.namespace:
        raise ClusterRejected(f"a {kind.kind} needs a namespace")
    return kind.path(namespace=ref.namespace if kind.namespaced else None)
