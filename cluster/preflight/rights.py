"""Every right that the portal uses, as `deploy/rbac.yaml` grants it (a test compares the two)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("get", "create", "patch", "delete")
_DEPLOYED_ACCOUNT: Final = "ml-portal"
_ACCOUNT: Final = "system:serviceaccount:"


class Right(NamedTuple):
    """May `verb` the `resource` (a plural, or `plural/subresource`) of `group`."""

    group: str
    resource: str
    verb: str


def _rights(table: dict[tuple[str, str], tuple[str, ...]]) -> tuple[Right, ...]:
    def rights() -> Iterator[Right]:
        for (group, resource), verbs in table.items():
            for verb in verbs:
                yield Right(group, resource, verb)

    return tuple(rights())


# In the whole cluster: what is watched and listed, which is reading, and what belongs to no namespace.
REQUIRED: Final = _rights({
    ("", "namespaces"): ("get", "list", "create"),
    ("", "nodes"): _READ,
    ("", "pods"): _READ,
    ("", "events"): ("list", "watch"),
    ("", "persistentvolumeclaims"): _READ,
    ("", "resourcequotas"): ("get", "list"),
    ("", "limitranges"): ("get", "list"),
    ("batch", "jobs"): _READ,
    ("apps", "deployments"): _READ,
    ("autoscaling", "horizontalpodautoscalers"): _READ,
    ("discovery.k8s.io", "endpointslices"): ("list",),
    ("scheduling.k8s.io", "priorityclasses"): ("get", "list", "create"),
    ("rbac.authorization.k8s.io", "rolebindings"): ("list", "create"),
})  # fmt: skip

WHY: Final = {
    ("", "namespaces"): "Which teams' namespaces there are, and whose; a new team gets one.",
    ("", "nodes"): "What the cluster offers and how much of it is free.",
    ("", "pods"): "The pods of runs and endpoints, and how much room the pods of others leave on the nodes.",
    ("", "events"): "What is said of teams' objects and of nodes, copied before the API server forgets it.",
    ("", "persistentvolumeclaims"): "What teams may mount, also where another made it.",
    ("", "resourcequotas"): "Whether the limits of every team are as derived, in one list.",
    ("", "limitranges"): "Whether the limits of every team are as derived, in one list.",
    ("batch", "jobs"): "One watch follows the runs of all teams.",
    ("apps", "deployments"): "One watch follows the endpoints of all teams; preflight looks for operators.",
    ("autoscaling", "horizontalpodautoscalers"): "One watch follows the scalers of all teams.",
    (
        "discovery.k8s.io",
        "endpointslices",
    ): "Where the API server and the portal's stores are, which pods must not reach.",
    ("scheduling.k8s.io", "priorityclasses"): "They belong to no namespace.",
    (
        "rbac.authorization.k8s.io",
        "rolebindings",
    ): "The portal gives itself the rights in a team's namespace.",
}
"""Why a right that holds in the whole cluster does not do with a RoleBinding."""

# In the namespaces of teams alone, by the RoleBinding that the portal makes in each.
OF_TEAMS: Final = _rights({
    ("", "namespaces"): ("patch",),
    ("", "pods"): ("patch", "delete"),
    ("", "pods/log"): ("get",),
    ("", "services"): _WRITE,
    ("", "services/proxy"): ("get", "create", "update", "patch", "delete"),
    ("", "configmaps"): _WRITE,
    ("", "secrets"): ("create", "patch", "delete"),
    ("", "persistentvolumeclaims"): ("create", "patch"),
    ("", "resourcequotas"): ("create", "patch"),
    ("", "limitranges"): ("create", "patch"),
    ("", "serviceaccounts"): ("get", "create", "patch"),
    ("batch", "jobs"): ("create", "patch", "delete"),
    ("apps", "deployments"): ("create", "patch", "delete"),
    ("apps", "replicasets"): ("get", "list", "delete"),
    ("policy", "poddisruptionbudgets"): _WRITE,
    ("autoscaling", "horizontalpodautoscalers"): ("create", "patch", "delete"),
    ("networking.k8s.io", "networkpolicies"): _WRITE,
    ("kubeflow.org", "pytorchjobs"): ("create", "patch", "delete"),
    ("kubeflow.org", "tfjobs"): ("create", "patch", "delete"),
    ("kubeflow.org", "mpijobs"): ("create", "patch", "delete"),
    ("trainer.kubeflow.org", "trainjobs"): ("create", "patch", "delete"),
    ("keda.sh", "scaledobjects"): ("create", "patch", "delete"),
    ("scheduling.volcano.sh", "podgroups"): ("create", "patch", "delete"),
    ("scheduling.x-k8s.io", "podgroups"): ("create", "patch", "delete"),
    ("monitoring.coreos.com", "podmonitors"): ("create", "patch", "delete"),
})  # fmt: skip

# In the whole cluster, needed only for the optional kinds that it serves and the settings name; NodePools are read where served.
OPTIONAL: Final = _rights({
    ("kubeflow.org", "pytorchjobs"): _READ,
    ("kubeflow.org", "tfjobs"): _READ,
    ("kubeflow.org", "mpijobs"): _READ,
    ("trainer.kubeflow.org", "trainjobs"): _READ,
    ("keda.sh", "scaledobjects"): _READ,
    ("scheduling.volcano.sh", "podgroups"): _READ,
    ("scheduling.x-k8s.io", "podgroups"): _READ,
    ("monitoring.coreos.com", "podmonitors"): _READ,
    ("karpenter.sh", "nodepools"): _READ,
})  # fmt: skip

BIND: Final = Right("rbac.authorization.k8s.io", "clusterroles", "bind")
"""Of the ClusterRole of teams' namespaces alone: RBAC lets nobody give rights away that he neither has nor may bind."""

# What the portal must not be able to do in every namespace; preflight warns of an account with more rights than it needs.
UNWANTED: Final = (
    Right("", "secrets", "get"),
    Right("", "secrets", "list"),
    Right("", "pods/exec", "create"),
    Right("", "nodes", "patch"),
    Right("", "namespaces", "patch"),
    Right("", "secrets", "create"),
    Right("", "pods", "delete"),
    Right("batch", "jobs", "create"),
    Right("apps", "deployments", "patch"),
    Right("rbac.authorization.k8s.io", "clusterrolebindings", "create"),
)


def team_role_of(user: str) -> str:
    """The ClusterRole of teams' namespaces for the account as which the portal runs: it is named after it."""
    name = user.rpartition(":")[2] if user.startswith(_ACCOUNT) else _DEPLOYED_ACCOUNT
    return f"{name}-team"
