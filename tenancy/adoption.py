"""Whose a namespace is: the portal makes those of its teams, and takes over one that is there only with a label that its
owner set.
"""

from __future__ import annotations

from django.conf import settings

from cluster.client import ClusterClient, Manifest
from cluster.errors import AlreadyExists, ClusterRejected, ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import TEAM
from teams.workload_policy import is_reserved_namespace

_FORBIDDEN = 403
"""Not at fault is the request: the owner may label the namespace at any time, so that it is asked for again."""


def settle(client: ClusterClient, manifest: Manifest) -> None:
    """Make the namespace of the manifest, or make sure that the one which is there is its team's.

    Raises ClusterRejected, with what to do, for one that belongs to somebody else or to Kubernetes.
    """
    name, team = manifest["metadata"]["name"], manifest["metadata"]["labels"][TEAM]
    if is_reserved_namespace(name, own=settings.OWN_NAMESPACES):
        message = f"The namespace {name} belongs to Kubernetes or to the portal: no team can use it."
        raise ClusterRejected(message, status=_FORBIDDEN)
    labels = _labels_of(client, name)
    if labels is None:
        try:
            client.create(manifest)
        except AlreadyExists:
            labels = _labels_of(client, name) or {}
        else:
            return
    if labels.get(TEAM) != team:
        whose = f"is team {labels[TEAM]}'s" if labels.get(TEAM) else "was not made by the portal"
        message = (
            f"The namespace {name} is there already and {whose}. Its owner lets team {team} use it by: kubectl label "
            f"namespace {name} {TEAM}={team}{' --overwrite' if labels.get(TEAM) else ''}"
        )
        raise ClusterRejected(message, status=_FORBIDDEN)


def _labels_of(client: ClusterClient, name: str) -> dict[str, str] | None:
    try:
        found = client.get(ObjectRef("v1", "Namespace", "", name))
    except ObjectNotFound:
        return None
    return found["metadata"].get("labels") or {}
