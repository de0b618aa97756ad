"""The team's volumes: PersistentVolumeClaims that its runs and endpoints may mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import transaction

from cluster import kinds
from cluster.client import ClusterClient, Manifest
from cluster.errors import AlreadyExists, ClusterConflict, ClusterRejected, ClusterUnavailable, ObjectNotFound
from cluster.labels import MANAGED_BY, MANAGER, TEAM
from foundation.errors import Conflict, Invalid, Unavailable
from quotas.ceilings import CLAIMED, ceilings_of, volumes_of
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team
from teams.permissions import check_can_submit, check_open, hold_open
from tenancy.namespaces import ensure_namespace, forget_namespace
from workloads.models import ClaimRecord
from workloads.observations import record_claim, storage_of
from workloads.podrequests import STORAGE, quantity_of


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
    """Create a claim. Raises Conflict if the name is taken or the team's ceilings leave too little, Invalid with the
    cluster's message if it refuses it.
    """
    check_can_submit(actor.user, team)
    check_open(team)
    manifest = build_claim(
        namespace=team.namespace_name,
        team_slug=team.slug,
        name=name,
        size=size,
        access_mode=access_mode,
        storage_class=storage_class,
    )
    kept = _keep_room(client, team, manifest, now)
    try:
        made = _create(client, team, manifest)
    except AlreadyExists as error:
        raise Conflict(f"Team {team.slug} has a volume named {name} already.", code="name_taken") from error
    except ClusterRejected as error:
        raise Invalid(f"The cluster refused it: {error}", code="refused") from error
    except (ClusterUnavailable, ClusterConflict, ObjectNotFound) as error:
        raise Unavailable(f"The cluster cannot make it now: {error}") from error
    else:
        # A run that mounts it may be submitted before the watcher has seen it. At once, for whoever sums up meanwhile.
        with transaction.atomic():
            record_claim(made, cluster=client.cluster, now=now)
            kept.delete()
    finally:
        if kept.pk is not None:
            kept.delete()
    record_audit(
        actor=actor,
        action="volume.created",
        target_kind="volume",
        target_id=name,
        target_name=name,
        team=team,
        after={"size": size, "access_mode": access_mode},
        now=now,
    )
    return _volume(made)


def _keep_room(client: ClusterClient, team: Team, manifest: Manifest, now: datetime) -> ClaimRecord:
    """A row that counts below the team's ceilings until the claim itself does; where this process dies meanwhile, the
    watcher finds that there is no such claim. Conflict, naming the field, where there is no room.
    """
    size = storage_of(manifest)
    with transaction.atomic():
        hold_open(team)
        count, held = volumes_of([team]).get(team.namespace_name, (0, 0))
        most_volumes, most_storage = ceilings_of([team])[team.pk][len(CLAIMED) :]
        if most_volumes is not None and count + 1 > most_volumes:
            message = f"Team {team.slug} has {count} of {most_volumes} volumes. Ask a quota manager for more."
            raise Conflict.of_field("name", message, code="quota_exceeded")
        if most_storage is not None and held + size > most_storage:
            message = (
                f"The volumes of team {team.slug} have {quantity_of(STORAGE, held)} of {quantity_of(STORAGE, most_storage)}; "
                f"this one needs {quantity_of(STORAGE, size)}. Ask for less, or a quota manager for more."
            )
            raise Conflict.of_field("size", message, code="quota_exceeded")
        return ClaimRecord.objects.create(
            cluster=client.cluster,
            uid=f"asked-{uuid4().hex}",
            namespace=team.namespace_name,
            name=manifest["metadata"]["name"],
            access_modes=manifest["spec"]["accessModes"],
            storage_bytes=size,
            phase="Pending",
            observed_at=now,
        )


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
