"""Keeps a team's namespace as the rows say it should be, with as few calls as possible."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock

from django.db.models import F, FilteredRelation, Q, Sum
from django.db.models.functions import Greatest

from cluster.client import ClusterClient, Manifest
from cluster.errors import AlreadyExists
from controller.namespaces.namespace_manifests import (
    build_guard_rails,
    build_namespace,
    build_priority_classes,
)
from teams.models import Team
from workloads.kinds import kinds
from workloads.models import ResourceFlavor

# What this process has applied, by cluster and namespace, and when. Others change the same namespace, and so may
# people: it is not trusted long.
_applied: dict[tuple[str, str], tuple[str, float]] = {}
_lock = Lock()
TRUSTED_SECONDS = 30.0


def gpu_limits(team: Team) -> dict[str, int]:
    """What the namespace's fence lets the team's pods request, in units per resource name."""
    return gpu_limits_of([team])[team.pk]


def gpu_limits_of(teams: Iterable[Team]) -> dict[int, dict[str, int]]:
    """The fences of these teams by primary key, in one query.

    Of each resource name that a flavor has: the sum over the team's quotas of the most that borrowing allows, never
    below what it holds after a cut; 0 where it has no quota. The surge of a rollout is a claim, so it is in these.
    """
    keys = [team.pk for team in teams]
    theirs = FilteredRelation("quotas", condition=Q(quotas__team__in=keys))
    rows = (
        ResourceFlavor.objects.annotate(theirs=theirs).order_by().values("resource", team=F("theirs__team"))
    )
    # Per quota, not per name: what one flavor holds after its cut must not be taken from another's ceiling.
    sums = list(rows.annotate(limit=Sum(Greatest("theirs__ceiling", "theirs__used"))))
    names = sorted({row["resource"] for row in sums})
    limits = {key: dict.fromkeys(names, 0) for key in keys}
    for row in sums:
        if row["team"] is not None:
            limits[row["team"]][row["resource"]] = row["limit"]
    return limits


def manifests_for(team: Team) -> list[Manifest]:
    namespace = team.namespace_name
    return [
        build_namespace(namespace=namespace, team_slug=team.slug, pod_security=team.pod_security),
        *build_guard_rails(
            namespace=namespace,
            team_slug=team.slug,
            gpu_limits=gpu_limits(team),
            serving=[kind.name for kind in kinds() if kind.takes_requests],
        ),
    ]


def apply_fence(client: ClusterClient, team: Team) -> Manifest | None:
    """Apply the ResourceQuota alone, as the quotas say now; returns what then stands, None if there is none to set.

    ObjectNotFound if the team has no namespace.
    """
    for manifest in manifests_for(team):
        if manifest["kind"] == "ResourceQuota":
            return client.apply(manifest)
    return None


def ensure_namespace(client: ClusterClient, team: Team) -> None:
    """Apply the namespace and its guard rails unless this process has applied exactly these a moment ago."""
    manifests = manifests_for(team)
    print_of = hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()
    known, at = _applied.get((client.cluster, team.namespace_name), ("", 0.0))
    if known == print_of and time.monotonic() - at < TRUSTED_SECONDS:
        return
    for manifest in build_priority_classes():
        # A PriorityClass cannot be changed: the first one to create it has made it.
        with suppress(AlreadyExists):
            client.create(manifest)
    for manifest in manifests:
        client.apply(manifest)
    with _lock:
        _applied[client.cluster, team.namespace_name] = (print_of, time.monotonic())


def forget_namespace(client: ClusterClient, team: Team) -> None:
    """The namespace turned out to be missing or changed: apply it again next time."""
    with _lock:
        _applied.pop((client.cluster, team.namespace_name), None)
