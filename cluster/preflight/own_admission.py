"""Whether deploy/admission.yaml is in force: asked by dry runs of what its policies must refuse. Nothing is stored."""

from __future__ import annotations

from cluster.client import Manifest
from cluster.errors import AlreadyExists, ClusterRejected
from cluster.labels import MANAGED_BY, MANAGER
from cluster.preflight import rights
from cluster.preflight.registry import Check, ClusterFacts, register

_ID, _TITLE = "own-admission", "The API server holds the portal to its teams' namespaces"
_PROBE = "ml-portal-preflight"
_ACCOUNT = "system:serviceaccount:"
_DENIED = "denied"
"""In what a policy or a webhook answers, and in nothing that RBAC does."""


@register(id=_ID, title=_TITLE)
def own_admission(facts: ClusterFacts) -> Check:
    """Dry runs of a namespace in which pods may be privileged, and of a binding of the portal's rights in another's namespace."""
    user = facts.client.who_am_i() or ""
    tries = {"a namespace that lets pods be privileged": _loose_namespace()}
    if user.startswith(_ACCOUNT):
        tries["a binding of its rights in the namespace default"] = _stray_binding(user)
    may_not, taken = [], []
    for what, manifest in tries.items():
        try:
            facts.client.warnings_of(manifest)
        except AlreadyExists:
            # Told only after admission has let it pass.
            taken.append(what)
        except ClusterRejected as error:
            if error.status == 403 and _DENIED not in error.message:
                may_not.append(what)
        else:
            taken.append(what)
    if taken:
        detail = f"the API server would take from the portal {' and '.join(taken)}: nothing holds who takes over its account"
        return Check(_ID, _TITLE, "warn", detail, _fix(user))
    if may_not:
        detail = f"could not be tried: the portal's account may not create {' or '.join(may_not)}"
        return Check(_ID, _TITLE, "warn", detail, "kubectl apply -f deploy/rbac.yaml")
    return Check(_ID, _TITLE, "ok", f"refused, as it must be: {'; '.join(tries)}")


def _fix(user: str) -> str:
    deployed = f"{_ACCOUNT}ml-portal:ml-portal"
    if user == deployed:
        return "kubectl apply -f deploy/admission.yaml (Kubernetes 1.30 or later)"
    if not user:
        return f"this cluster does not say as whom the portal calls; on one that does, be {deployed} of deploy/rbac.yaml"
    return (
        f"the portal is {user} here: write that for {deployed} into deploy/admission.yaml, then kubectl apply -f it "
        "(Kubernetes 1.30 or later)"
    )


def _loose_namespace() -> Manifest:
    labels = {MANAGED_BY: MANAGER, "pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _PROBE, "labels": labels}}


def _stray_binding(user: str) -> Manifest:
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    group = rights.BIND.group
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": _PROBE, "namespace": "default"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": rights.team_role_of(user)},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
