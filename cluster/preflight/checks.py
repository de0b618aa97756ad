"""The cluster's own checks, one function each."""

from __future__ import annotations

from cluster import kinds
from cluster.errors import ClusterRejected, ObjectNotFound
from cluster.labels import MANAGED_BY, MANAGER, TEAM
from cluster.preflight import rights
from cluster.preflight.registry import Check, ClusterFacts, Status, register

_OLDEST_MINOR = 30
_ENFORCE = "pod-security.kubernetes.io/enforce"
_WARN = "pod-security.kubernetes.io/warn"
_GRANT = "kubectl apply -f deploy/rbac.yaml"


@register(id="reachable", title="The API server answers")
def reachable(facts: ClusterFacts) -> Check:
    """Whether there is a cluster, and its version is not too old."""
    version = str(facts.version.get("gitVersion", "unknown version"))
    digits = "".join(filter(str.isdigit, str(facts.version.get("minor", ""))))
    title = "The API server answers"
    if digits and int(digits) < _OLDEST_MINOR:
        return Check("reachable", title, "warn", version, f"upgrade to Kubernetes 1.{_OLDEST_MINOR} or later")
    return Check("reachable", title, "ok", version)


@register(id="rights", title="The portal may do what it does")
def own_rights(facts: ClusterFacts) -> Check:
    """Every right of deploy/rbac.yaml, asked of the API server itself: those in teams' namespaces in one of them."""
    title, client = "The portal may do what it does", facts.client
    served_groups = {version.rpartition("/")[0] for version, _ in facts.served}
    wanted = [*rights.REQUIRED, *(right for right in rights.OPTIONAL if right.group in served_groups)]
    try:
        lacking = [r for r in wanted if not client.can_i(r.verb, r.group, r.resource)]
        role = rights.team_role_of(client.who_am_i() or "")
        if not client.can_i(rights.BIND.verb, rights.BIND.group, rights.BIND.resource, name=role):
            lacking.append(rights.BIND)
        unwanted = [r for r in rights.UNWANTED if client.can_i(r.verb, r.group, r.resource)]
        # Without the others this one cannot be asked for.
        where = "" if lacking else _team_namespace(facts)
        theirs = [r for r in rights.OF_TEAMS if not r.group or r.group in served_groups] if where else []
        short = [r for r in theirs if not client.can_i(r.verb, r.group, r.resource, where)]
    except (ObjectNotFound, ClusterRejected) as error:
        return Check("rights", title, "warn", f"this cluster does not answer access reviews: {error.message}")
    if lacking:
        required = any(right in (*rights.REQUIRED, rights.BIND) for right in lacking)
        return Check("rights", title, "fail" if required else "warn", f"may not {_names(lacking)}", _GRANT)
    if short:
        fix = f"{_GRANT}; if that changes nothing: kubectl -n {where} delete rolebinding mlportal, which it makes anew"
        return Check("rights", title, "fail", f"may not {_names(short)} in {where}", fix)
    if unwanted:
        fix = f"run it as the service account of deploy/rbac.yaml ({_GRANT}), and remove older bindings of it"
        return Check(
            "rights", title, "warn", f"may {_names(unwanted)} in every namespace, which it never needs", fix
        )
    return Check(
        "rights",
        title,
        "ok",
        f"all {len(wanted) + len(theirs) + 1} rights are granted, and no needless one of weight",
    )


def _team_namespace(facts: ClusterFacts) -> str:
    """A namespace of the portal's in which rights can be asked for; empty while there is none."""
    return next(
        (
            item["metadata"]["name"]
            for item in facts.namespaces
            if _label(item, MANAGED_BY) == MANAGER
            and _label(item, TEAM)
            and not item["metadata"].get("deletionTimestamp")
        ),
        "",
    )


@register(id="priority-classes", title="Priority classes")
def priority_classes(facts: ClusterFacts) -> Check:
    """Classes besides the system's: without any, the scheduler preempts no pod."""
    title = "Priority classes"
    names = [
        item["metadata"]["name"]
        for item in facts.client.list(kinds.PRIORITY_CLASS).items
        if not item["metadata"]["name"].startswith("system-")
    ]
    if names:
        return Check("priority-classes", title, "ok", _shortened(names))
    fix = "make one per rank, for example inference > training > spot, training with preemptionPolicy: Never"
    return Check("priority-classes", title, "warn", "none besides the system's", fix)


@register(id="pod-security", title="Pod Security admission")
def pod_security(facts: ClusterFacts) -> Check:
    """A dry run of a privileged pod's Job: where admission works, the server warns of it. Nothing is
    stored.
    """
    title = "Pod Security admission"
    loose = [
        item["metadata"]["name"]
        for item in facts.namespaces
        if _label(item, MANAGED_BY) == MANAGER and not _label(item, _ENFORCE)
    ]
    if loose:
        fix = f"label them {_ENFORCE}=baseline"
        return Check("pod-security", title, "warn", f"not enforced in {_shortened(loose)}", fix)
    strict = [
        item["metadata"]["name"]
        for item in facts.namespaces
        if _label(item, _WARN) in {"baseline", "restricted"} and not item["metadata"].get("deletionTimestamp")
    ]
    if not strict:
        return Check("pod-security", title, "warn", "no team's namespace yet to try it in", "run again later")
    warnings = " ".join(facts.client.warnings_of(_privileged_job(strict[0])))
    if "PodSecurity" in warnings:
        return Check("pod-security", title, "ok", f"a privileged pod is noticed in {strict[0]}")
    fix = "switch on the PodSecurity admission plugin: teams' pods are not held to any profile"
    return Check("pod-security", title, "warn", f"a privileged pod passes unnoticed in {strict[0]}", fix)


@register(id="resource-quota", title="ResourceQuota")
def resource_quota(facts: ClusterFacts) -> Check:
    """The second line behind the portal's own quota."""
    if facts.serves(kinds.RESOURCE_QUOTA):
        return Check("resource-quota", "ResourceQuota", "ok", "served")
    fix = "without it only the portal's own quota holds"
    return Check("resource-quota", "ResourceQuota", "warn", "not served", fix)


@register(id="network-policy", title="NetworkPolicy")
def network_policy(facts: ClusterFacts) -> Check:
    """That they are served does not mean that they are enforced: the network plugin does that, unseen from
    here.
    """
    title = "NetworkPolicy"
    if facts.serves(kinds.NETWORK_POLICY):
        return Check(
            "network-policy", title, "ok", "served; whether it is enforced depends on the CNI plugin"
        )
    return Check(
        "network-policy",
        title,
        "warn",
        "not served: teams' pods are open to each other",
        "use a CNI that has it",
    )


@register(id="metrics-api", title="Metrics API")
def metrics_api(facts: ClusterFacts) -> Check:
    """CPU-driven scaling and `kubectl top` need it; the portal itself does not."""
    if any(version.startswith("metrics.k8s.io/") for version, _ in facts.served):
        return Check("metrics-api", "Metrics API", "ok", "served")
    fix = "install metrics-server if endpoints are to scale on CPU"
    return Check("metrics-api", "Metrics API", "warn", "metrics.k8s.io is not served", fix)


@register(id="node-pools", title="Karpenter NodePools")
def node_pools(facts: ClusterFacts) -> Check:
    """Where they are served, their limits say what may still come; else each flavor has to declare it."""
    title = "Karpenter NodePools"
    if not facts.serves(kinds.NODE_POOL):
        return Check(
            "node-pools",
            title,
            "ok",
            "not served: flavors whose nodes come from zero need a declared block (`provisionable`)",
        )
    names = [item["metadata"]["name"] for item in facts.client.list(kinds.NODE_POOL).items]
    return Check("node-pools", title, "ok", f"served: {_shortened(names) or 'none exists yet'}")


@register(id="optional-kinds", title="Optional kinds")
def optional_kinds(facts: ClusterFacts) -> Check:
    """A served kind without a controller accepts objects and never runs them."""
    title = "Optional kinds"
    served = [kind for kind in kinds.OPTIONAL if facts.serves(kind)]
    if not served:
        return Check("optional-kinds", title, "ok", "none is served, so none is offered")
    running = {
        item["metadata"]["name"]
        for item in facts.deployments
        if (item.get("status") or {}).get("availableReplicas", 0) > 0
    }
    # devcluster runs the controllers of all that it serves within itself.
    built_in = "+devcluster" in str(facts.version.get("gitVersion", ""))
    idle = [
        kind
        for kind in served
        if not built_in and not any(word in name for word in kind.controllers for name in running)
    ]
    detail = "; ".join(
        f"{kind.kind} ({kind.group}) served{', no controller seen' if kind in idle else ''}"
        for kind in served
    )
    status: Status = "warn" if idle else "ok"
    fix = "install the operator, or leave the kind out of the setting optional_kinds" if idle else ""
    return Check("optional-kinds", title, status, detail, fix)


def _privileged_job(namespace: str) -> dict[str, object]:
    container = {"name": "probe", "image": "probe", "securityContext": {"privileged": True}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "ml-portal-preflight", "namespace": namespace},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def _label(item: dict[str, dict[str, dict[str, str]]], key: str) -> str:
    return (item["metadata"].get("labels") or {}).get(key, "")


def _names(lacking: list[rights.Right]) -> str:
    by_resource: dict[str, list[str]] = {}
    for right in lacking:
        resource = f"{right.resource}.{right.group}" if right.group else right.resource
        by_resource.setdefault(resource, []).append(right.verb)
    return "; ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in by_resource.items())


def _shortened(names: list[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
