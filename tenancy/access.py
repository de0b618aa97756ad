"""The portal's rights in a team's namespace: a RoleBinding that it makes for itself, of one ClusterRole.

Outside of its teams' namespaces it may read what it watches and make such bindings, and write nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient, Manifest
from cluster.errors import AlreadyExists, ClusterConflict, ObjectNotFound
from cluster.labels import MANAGED_BY, MANAGER, TEAM, selector
from cluster.preflight.rights import team_role_of

BINDING = "mlportal"
_ACCOUNT = "system:serviceaccount:"
_RBAC = "rbac.authorization.k8s.io"


def bind(client: ClusterClient, *, namespace: str, team_slug: str) -> None:
    """Make the RoleBinding where it is not there. Nothing, where the server does not say who is asking: it checks no
    rights either.
    """
    user = client.who_am_i()
    if user is None:
        return
    with suppress(AlreadyExists):
        client.create(build_binding(namespace=namespace, team_slug=team_slug, user=user))


def keep_bindings(client: ClusterClient) -> int:
    """Make the RoleBinding in each team's namespace where it is missing; returns in how many it was."""
    user = client.who_am_i()
    if user is None:
        return 0
    bound = {
        item["metadata"]["namespace"]
        for item in client.list(kinds.ROLE_BINDING, label_selector=selector()).items
        if item["metadata"]["name"] == BINDING
    }
    missing = 0
    for item in client.list(kinds.NAMESPACE, label_selector=f"{selector()},{TEAM}").items:
        metadata = item["metadata"]
        if metadata["name"] in bound or metadata.get("deletionTimestamp"):
            continue
        made = build_binding(namespace=metadata["name"], team_slug=metadata["labels"][TEAM], user=user)
        # It may have been made, or the namespace deleted, meanwhile.
        with suppress(ClusterConflict, ObjectNotFound):
            client.create(made)
            missing += 1
    return missing


def build_binding(*, namespace: str, team_slug: str, user: str) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": BINDING,
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER, TEAM: team_slug},
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": team_role_of(user)},
        "subjects": [_subject(user)],
    }


def _subject(user: str) -> dict[str, Any]:
    if user.startswith(_ACCOUNT):
        namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": _RBAC, "kind": "User", "name": user}
