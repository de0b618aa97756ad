"""The team's volumes: PersistentVolumeClaims that its runs and endpoints may mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient, Manifest
from cluster.errors import AlreadyExists, ClusterConflict, ClusterRejected, ClusterUnavailable, ObjectNotFound
from cluster.labels import MANAGED_BY, MANAGER, TEAM
from controller.namespaces.namespaces import ensure_namespace, forget_namespace
from foundation.errors import Conflict, Invalid, Unavailable
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team
from teams.permissions import check_can_submit
from workloads.observations import record_claim


@dataclass(frozen=True)
class TeamVolume:
    name: str
    size: str
    access_mode: str
    storage_class: str | None
    phase: str


def list_volumes(client: ClusterClient, team: Team) -> list[TeamVolume]:
    """The PersistentVolumeClaims of the team's namespace, by name; empty while there is no namespace."""
    try:
        listing = client.list(kinds.CLAIM, namespace=team.namespace_name)
    except ObjectNotFound:
        return []
    except ClusterUnavailable as error:
        raise Unavailable(f"The cluster does not answer: {error}") from error
    except ClusterRejected as error:
        raise Unavailable(f"The cluster does not show its claims to the portal: {error}") from error
    return sorted((_volume(item) for item in listing.items), key=lambda volume: volume.name)


def create_volume(
    client: ClusterClient,
    *,
    team: Team,
    name: str,
    size: str,
    access_mode: str,
    storage_class: str | None,
    actor: Actor,
    now: datetime,
) -> TeamVolume:
    """Create a claim. Raises Conflict if the name is taken, Invalid with the cluster's message if it refuses it."""
    check_can_submit(actor.user, team)
    manifest = build_claim(
        namespace=team.namespace_name,
        team_slug=team.slug,
        name=name,
        size=size,
        access_mode=access_mode,
        storage_class=storage_class,
    )
    try:
        made = _create(client, team, manifest)
    except AlreadyExists as error:
        raise Conflict(f"Team {team.slug} has a volume named {name} already.", code="name_taken") from error
    except ClusterRejected as error:
        raise Invalid(f"The cluster refused it: {error}", code="refused") from error
    except (ClusterUnavailable, ClusterConflict, ObjectNotFound) as error:
        raise Unavailable(f"The cluster cannot make it now: {error}") from error
    # A run that mounts it may be submitted before the watcher has seen it.
    record_claim(made, cluster=client.cluster, now=now)
    record_audit(
        actor=actor,
        action="volume.created",
        target_kind="volume",
        target_id=name,
        team=team,
        after={"size": size, "access_mode": access_mode},
        now=now,
    )
    return _volume(made)


def _create(client: ClusterClient, team: Team, manifest: Manifest) -> dict[str, Any]:
    """Create the claim, and the namespace again if it was deleted meanwhile."""
    ensure_namespace(client, team)
    try:
        return client.create(manifest)
    except ObjectNotFound:
        forget_namespace(client, team)
        ensure_namespace(client, team)
        return client.create(manifest)


def build_claim(
    *, namespace: str, team_slug: str, name: str, size: str, access_mode: str, storage_class: str | None
) -> Manifest:
    spec: dict[str, Any] = {"accessModes": [access_mode], "resources": {"requests": {"storage": size}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGER, TEAM: team_slug}},
        "spec": spec,
    }


def _volume(manifest: Mapping[str, Any]) -> TeamVolume:
    spec = manifest["spec"]
    return TeamVolume(
        name=manifest["metadata"]["name"],
        size=spec["resources"]["requests"]["storage"],
        access_mode=spec["accessModes"][0],
        storage_class=spec.get("storageClassName"),
        phase=manifest.get("status", {}).get("phase", "Pending"),
    )
