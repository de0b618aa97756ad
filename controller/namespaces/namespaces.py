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

# What this process has applied, by cluster and namespace, and when. Other processes and people may change the same
# namespace: the entry is trusted only briefly.
_applied: dict[tuple[str, str], tuple[str, float]] = {}
_lock = Lock()
TRUSTED_SECONDS = 30.0


def gpu_limits(team: Team) -> dict[str, int]:
    """The GPU limits of the team's ResourceQuota, in units per resource name."""
    return gpu_limits_of([team])[team.pk]


def gpu_limits_of(teams: Iterable[Team]) -> dict[int, dict[str, int]]:
    """The ResourceQuota limits of these teams by primary key, in one query.

    For each resource name of a flavor: the sum of the team's quota ceilings (borrowing included), each at least its
    current use after a cut; 0 without a quota. The surge of a rollout is a claim, so it is included.
    """
    keys = [team.pk for team in teams]
    theirs = FilteredRelation("quotas", condition=Q(quotas__team__in=keys))
    rows = (
        ResourceFlavor.objects.annotate(theirs=theirs).order_by().values("resource", team=F("theirs__team"))
    )
    # Per quota, not per name: one flavor's use above its ceiling must not reduce another's.
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
    """Apply only the ResourceQuota, from the current quotas; returns the applied object, None if there is none to set.

    ObjectNotFound if the team has no namespace.
    """
    for manifest in manifests_for(team):
        if manifest["kind"] == "ResourceQuota":
            return client.apply(manifest)
    return None


def ensure_namespace(client: ClusterClient, team: Team) -> None:
    """Apply the namespace and its guard rails unless this process has recently applied exactly these."""
    manifests = manifests_for(team)
    print_of = hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()
    known, at = _applied.get((client.cluster, team.namespace_name), ("", 0.0))
    if known == print_of and time.monotonic() - at < TRUSTED_SECONDS:
        return
    for manifest in build_priority_classes():
        # A PriorityClass is immutable: whoever creates it first wins.
        with suppress(AlreadyExists):
            client.create(manifest)
    for manifest in manifests:
        client.apply(manifest)
    with _lock:
        _applied[client.cluster, team.namespace_name] = (print_of, time.monotonic())


def forget_namespace(client: ClusterClient, team: Team) -> None:
    """Drop the cached state of a namespace that is missing or changed, so that it is applied again next time."""
    with _lock:
        _applied.pop((client.cluster, team.namespace_name), None)
