"""Every right that the portal uses, as `deploy/rbac.yaml` grants it (a test compares the two)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_READ: Final = ("get", "list", "watch")
_OWN: Final = (*_READ, "create", "patch", "delete")


class Right(NamedTuple):
    """May `verb` the `resource` (a plural, or `plural/subresource`) of `group`, in every namespace."""

    group: str
    resource: str
    verb: str


def _rights(table: dict[tuple[str, str], tuple[str, ...]]) -> tuple[Right, ...]:
    def rights() -> Iterator[Right]:
        for (group, resource), verbs in table.items():
            for verb in verbs:
                yield Right(group, resource, verb)

    return tuple(rights())


REQUIRED: Final = _rights({
    ("", "namespaces"): (*_READ, "create", "patch"),
    ("", "nodes"): _READ,
    ("", "pods"): (*_READ, "delete"),
    ("", "pods/log"): ("get",),
    ("", "events"): ("list", "watch"),
    ("", "services"): _OWN,
    ("", "services/proxy"): ("get", "create", "update", "patch", "delete"),
    ("", "configmaps"): ("get", "list", "create", "patch", "delete"),
    ("", "secrets"): ("create", "patch", "delete"),
    ("", "persistentvolumeclaims"): (*_READ, "create", "patch"),
    ("", "resourcequotas"): ("get", "list", "create", "patch"),
    ("", "limitranges"): ("get", "list", "create", "patch"),
    ("", "serviceaccounts"): ("get", "list", "create", "patch"),
    ("batch", "jobs"): _OWN,
    ("apps", "deployments"): _OWN,
    ("apps", "replicasets"): (*_READ, "delete"),
    ("policy", "poddisruptionbudgets"): _OWN,
    ("autoscaling", "horizontalpodautoscalers"): _OWN,
    ("networking.k8s.io", "networkpolicies"): ("get", "list", "create", "patch", "delete"),
    ("scheduling.k8s.io", "priorityclasses"): ("get", "list", "create"),
})  # fmt: skip

# Needed only for the optional kinds that the cluster serves and the settings name; NodePools are read where served.
OPTIONAL: Final = _rights({
    ("kubeflow.org", "pytorchjobs"): _OWN,
    ("kubeflow.org", "tfjobs"): _OWN,
    ("kubeflow.org", "mpijobs"): _OWN,
    ("trainer.kubeflow.org", "trainjobs"): _OWN,
    ("keda.sh", "scaledobjects"): _OWN,
    ("scheduling.volcano.sh", "podgroups"): _OWN,
    ("scheduling.x-k8s.io", "podgroups"): _OWN,
    ("monitoring.coreos.com", "podmonitors"): _OWN,
    ("karpenter.sh", "nodepools"): _READ,
})  # fmt: skip

# What the portal must not be able to do; preflight warns of an account with more rights than it needs.
UNWANTED: Final = (
    Right("", "secrets", "get"),
    Right("", "secrets", "list"),
    Right("", "pods/exec", "create"),
    Right("", "nodes", "patch"),
)
