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
from quotas.ceilings import CEILINGS, CLAIMED, ceilings_of, held_of, volumes_of
from teams.models import Team
from teams.pod_security import level_of
from tenancy import access, adoption
from tenancy.closed_addresses import surroundings
from tenancy.namespace_manifests import (
    build_guard_rails,
    build_namespace,
    build_priority_classes,
)
from tenancy.network_policies import build_egress
from workloads.kinds import kinds
from workloads.models import ResourceFlavor
from workloads.podrequests import CPU

# What this process has applied, by cluster and namespace, and when. Other processes and people may change the same
# namespace: the entry is trusted only briefly.
_applied: dict[tuple[str, str], tuple[str, float]] = {}
_lock = Lock()
TRUSTED_SECONDS = 30.0


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


def limits_of(teams: Iterable[Team]) -> dict[int, dict[str, int]]:
    """All limits of these teams' ResourceQuotas by primary key: those of GPUs, and their ceilings in cores, bytes and
    numbers, each at least what is held now.
    """
    asked = list(teams)
    gpus, ceilings = gpu_limits_of(asked), ceilings_of(asked)
    held, volumes = held_of(asked), volumes_of(asked)
    limits = {}
    for team in asked:
        taken = (*held.get(team.pk, (0,) * len(CLAIMED)), *volumes.get(team.namespace_name, (0, 0)))
        limits[team.pk] = gpus[team.pk] | {
            ceiling.resource: -(-max(most, now) // (ceiling.each if ceiling.resource == CPU else 1))
            for ceiling, most, now in zip(CEILINGS, ceilings[team.pk], taken, strict=True)
            if most is not None
        }
    return limits


def manifests_for(team: Team) -> list[Manifest]:
    namespace = build_namespace(
        namespace=team.namespace_name, team_slug=team.slug, pod_security=level_of(team)
    )
    return [namespace, *_guard_rails(team)]


def _guard_rails(team: Team) -> list[Manifest]:
    return build_guard_rails(
        namespace=team.namespace_name,
        team_slug=team.slug,
        limits=limits_of([team])[team.pk],
        serving=[kind.name for kind in kinds() if kind.takes_requests],
    )


def apply_fence(client: ClusterClient, team: Team) -> Manifest | None:
    """Apply only the LimitRange and the ResourceQuota, from the current quotas and ceilings; returns the applied
    ResourceQuota, None if there is none to set.

    ObjectNotFound if the team has no namespace.
    """
    applied = None
    for manifest in _guard_rails(team):
        if manifest["kind"] == "LimitRange":
            client.apply(manifest)
        elif manifest["kind"] == "ResourceQuota":
            applied = client.apply(manifest)
    return applied


def ensure_namespace(client: ClusterClient, team: Team) -> None:
    """Apply the namespace and its guard rails unless this process has recently applied exactly these.

    Raises ClusterRejected where the namespace is somebody else's.
    """
    manifests = [*manifests_for(team), _egress(client, team)]
    print_of = hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()
    known, at = _applied.get((client.cluster, team.namespace_name), ("", 0.0))
    if known == print_of and time.monotonic() - at < TRUSTED_SECONDS:
        return
    adoption.settle(client, manifests[0])
    access.bind(client, namespace=team.namespace_name, team_slug=team.slug)
    for manifest in build_priority_classes():
        # A PriorityClass is immutable: whoever creates it first wins.
        with suppress(AlreadyExists):
            client.create(manifest)
    for manifest in manifests:
        client.apply(manifest)
    with _lock:
        _applied[client.cluster, team.namespace_name] = (print_of, time.monotonic())


def _egress(client: ClusterClient, team: Team) -> Manifest:
    return build_egress(
        namespace=team.namespace_name,
        team_slug=team.slug,
        egress=team.egress,
        around=surroundings(client),
    )


def forget_namespace(client: ClusterClient, team: Team) -> None:
    """Drop the cached state of a namespace that is missing or changed, so that it is applied again next time."""
    with _lock:
        _applied.pop((client.cluster, team.namespace_name), None)
