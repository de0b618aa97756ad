"""The team's Secrets: values are passed to the cluster, and only names and keys are stored here.

The portal has no right to read Secrets. It reads only their metadata, as the answer to an empty dry-run patch, to
tell its own Secrets from those that others made.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient, Manifest
from cluster.errors import ClusterConflict, ClusterRejected, ClusterUnavailable, ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import MANAGED_BY, MANAGER, TEAM, WORKLOAD_ID
from foundation.errors import Conflict, Invalid, NotFound, Unavailable
from teams.actors import Actor
from teams.models import SecretName, Team
from teams.permissions import check_can_manage, check_can_submit, check_open
from teams.secret_names import check_room, forget_secret, record_secret
from tenancy.namespaces import ensure_namespace, forget_namespace
from workloads.podspec import grammar

PULL_SECRET_KEY = ".dockerconfigjson"  # noqa: S105 - a key's name
"""With this key alone it is a Secret that images are pulled with, which has a type of its own."""


def write_secret(
    client: ClusterClient,
    *,
    team: Team,
    name: str,
    values: Mapping[str, str],
    actor: Actor,
    now: datetime,
) -> SecretName:
    """Create the Secret with exactly these values, or replace those of the portal's own Secret of that name.

    Raises Conflict if someone else made a Secret of that name, or the team has as many as it may; Invalid with the cluster's
    message if it refuses it.
    """
    check_can_submit(actor.user, team)
    check_open(team)
    _check_name(name)
    check_room(team, name)
    manifest = build_secret(namespace=team.namespace_name, team_slug=team.slug, name=name, values=values)
    try:
        ensure_namespace(client, team)
        standing = _metadata(client, team, name)
        if standing is not None and not _is_own(standing, team):
            raise Conflict.of_field(
                "name",
                f"There is a Secret {name} that the portal did not make, and does not overwrite. A lead may register "
                "it by its keys; else choose another name.",
                code="name_taken",
            )
        # A new Secret is applied without force; on the portal's own, every field is forced.
        client.apply(manifest, force=standing is not None)
    except ObjectNotFound as error:
        forget_namespace(client, team)
        raise Unavailable("The namespace of the team is being made again; try once more.") from error
    except ClusterConflict as error:
        raise Conflict(f"Somebody else writes this Secret: {error}", code="name_taken") from error
    except ClusterRejected as error:
        raise Invalid(f"The cluster refused it: {error}", code="refused") from error
    except ClusterUnavailable as error:
        raise Unavailable(f"The cluster cannot take it now: {error}") from error
    return record_secret(team=team, name=name, keys=values, written_here=True, actor=actor, now=now)


def register_secret(
    client: ClusterClient, *, team: Team, name: str, keys: Iterable[str], actor: Actor, now: datetime
) -> SecretName:
    """Register a Secret that was made outside the portal, so that runs and endpoints may use it. For leads: a user who
    may use a Secret may read it.

    Raises Invalid if there is no such Secret, or if it is the token of an attempt; Conflict where the team has as many as it may.
    """
    check_can_manage(actor.user, team)
    check_open(team)
    _check_name(name)
    check_room(team, name)
    try:
        standing = _metadata(client, team, name)
    except ClusterRejected as error:
        raise Invalid(f"The cluster refused it: {error}", code="refused") from error
    except (ClusterUnavailable, ClusterConflict) as error:
        raise Unavailable(f"The cluster cannot be asked now: {error}") from error
    if standing is None:
        message = (
            f"There is no Secret {name} in {team.namespace_name}. Make it first, or give its values here."
        )
        raise Invalid.of_field("name", message, code="unknown_secret")
    if _is_own(standing, team):
        message = f"The portal made {name} and knows its keys; give values to change them."
        raise Conflict.of_field("name", message, code="name_taken")
    if (standing["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER:
        message = f"{name} belongs to one attempt of a run and goes with it."
        raise Invalid.of_field("name", message, code="reserved_name")
    return record_secret(team=team, name=name, keys=keys, written_here=False, actor=actor, now=now)


def delete_secret(client: ClusterClient, *, team: Team, name: str, actor: Actor, now: datetime) -> None:
    """Delete a Secret that the portal wrote; for a registered Secret, only the registration.

    Raises NotFound for a Secret unknown to the portal.
    """
    check_can_submit(actor.user, team)
    row = SecretName.objects.select_related("team").filter(team=team, name=name).first()
    if row is None:
        raise NotFound(f"Team {team.slug} has no secret {name}.")
    if row.written_here:
        try:
            _delete(client, team, name)
        except ClusterRejected as error:
            raise Invalid(f"The cluster refused it: {error}", code="refused") from error
        except (ClusterUnavailable, ClusterConflict) as error:
            raise Unavailable(f"The cluster cannot delete it now: {error}") from error
    else:
        check_can_manage(actor.user, team)
    forget_secret(secret=row, actor=actor, now=now)


def _check_name(name: str) -> None:
    fault = grammar.object_name(name)
    if fault is not None:
        raise Invalid.of_field("name", fault.message, code=fault.code)


def _delete(client: ClusterClient, team: Team, name: str) -> None:
    standing = _metadata(client, team, name)
    # A user may have deleted it and made another one of that name: the portal must not delete that one.
    if standing is not None and _is_own(standing, team):
        client.delete(_ref(team, name), uid=standing["metadata"]["uid"])


def build_secret(*, namespace: str, team_slug: str, name: str, values: Mapping[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson" if set(values) == {PULL_SECRET_KEY} else "Opaque",
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGER, TEAM: team_slug}},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in sorted(values.items())},
    }


def _ref(team: Team, name: str) -> ObjectRef:
    return ObjectRef(kinds.SECRET.api_version, kinds.SECRET.kind, team.namespace_name, name)


def _metadata(client: ClusterClient, team: Team, name: str) -> dict[str, Any] | None:
    try:
        return client.read_identity(_ref(team, name))
    except ObjectNotFound:
        return None


def _is_own(secret: Mapping[str, Any], team: Team) -> bool:
    """Whether the portal wrote the Secret for the team: an attempt's token also has the workload's labels."""
    labels = secret["metadata"].get("labels") or {}
    ours = labels.get(MANAGED_BY) == MANAGER and labels.get(TEAM) == team.slug
    return ours and WORKLOAD_ID not in labels
