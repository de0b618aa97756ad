"""Keeps each team's ResourceQuota in the cluster at the limits derived from its quotas."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from cluster import kinds, quantities
from cluster.client import ClusterClient
from cluster.errors import ClusterError, ObjectNotFound
from cluster.labels import selector
from controller.namespaces.namespace_manifests import QUOTA_NAME
from controller.namespaces.namespaces import apply_fence, forget_namespace, gpu_limits_of
from foundation import leases
from quotas.models import Fence
from teams.models import Team

logger = logging.getLogger(__name__)

PREFIX = "requests."
Units = dict[str, int]


def keep_in_step(client: ClusterClient, *, now: datetime) -> int:
    """Compare every team's ResourceQuota with its quotas, correct differences, and record both in `Fence` rows.

    Returns how many someone else changed. Teams without a namespace are skipped: it is created with
    their first workload. Raises ClusterError if the cluster cannot be read; a failed write is logged.
    """
    namespaces = _namespaces(client)
    standing = _standing(client)
    teams = list(Team.objects.all())
    derived = gpu_limits_of(teams)
    known = {fence.team_id: fence for fence in Fence.objects.all()}
    fences, drifted = [], 0
    for team in teams:
        wanted, observed = derived[team.pk], None
        if team.namespace_name in namespaces:
            observed = standing.get(team.namespace_name, {})
            if observed != wanted:
                # The ResourceQuota is as derived at the last check: the quotas changed since, no one touched it.
                expected = team.pk not in known or known[team.pk].derived == observed
                drifted += not expected
                observed = _set_right(client, team, wanted, observed, expected=expected)
        fences.append(Fence(team=team, derived=wanted, observed=observed, checked_at=now))
    with transaction.atomic():
        leases.check()
        Fence.objects.bulk_create(
            fences,
            update_conflicts=True,
            unique_fields=["team"],
            update_fields=["derived", "observed", "checked_at"],
        )
    return drifted


def drift() -> int:
    """The number of teams whose ResourceQuota differed from the derived limits at the last check: 0 without drift."""
    return Fence.objects.filter(~Q(observed=F("derived")), observed__isnull=False).count()


def _set_right(client: ClusterClient, team: Team, wanted: Units, observed: Units, *, expected: bool) -> Units:
    """Apply the ResourceQuota; returns the limits to record as observed: drift is kept until the next check."""
    facts = {"team": team.slug, "derived": wanted, "observed": observed}
    if not expected:
        logger.warning("fence.drift", extra=facts)
    try:
        forget_namespace(client, team)
        applied = apply_fence(client, team)
    except ObjectNotFound:
        # The namespace went away meanwhile.
        return observed
    except ClusterError as error:
        logger.warning("fence.not_set", extra={**facts, "error": str(error)})
        return observed
    logger.info("fence.set", extra=facts)
    return _units(applied) if expected and applied is not None else observed


def _namespaces(client: ClusterClient) -> set[str]:
    items = client.list(kinds.NAMESPACE, label_selector=selector()).items
    return {item["metadata"]["name"] for item in items if not item["metadata"].get("deletionTimestamp")}


def _standing(client: ClusterClient) -> dict[str, Units]:
    items = client.list(kinds.RESOURCE_QUOTA, label_selector=selector()).items
    return {
        item["metadata"]["namespace"]: _units(item)
        for item in items
        if item["metadata"]["name"] == QUOTA_NAME
    }


def _units(manifest: Mapping[str, Any]) -> Units:
    """Units per extended resource name that the ResourceQuota limits; CPU and memory are ignored."""
    hard = (manifest.get("spec") or {}).get("hard") or {}
    named = {key.removeprefix(PREFIX): text for key, text in hard.items() if key.startswith(PREFIX)}
    return {name: int(quantities.parse(text)) for name, text in named.items() if "/" in name}
