"""Keeps each team's ResourceQuota in the cluster at the limits derived from its quotas."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from cluster import kinds, quantities
from cluster.client import ClusterClient
from cluster.errors import ClusterError, ObjectNotFound
from cluster.labels import TEAM, selector
from foundation import leases
from quotas.models import Fence
from teams.models import Team
from tenancy.namespace_manifests import COUNTED, LIMIT_RANGE_NAME, QUOTA_NAME, limit_items
from tenancy.namespaces import apply_fence, forget_namespace, limits_of

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
    derived = limits_of(teams)
    ranges = _ranges(client)
    known = {fence.team_id: fence for fence in Fence.objects.all()}
    fences, drifted = [], 0
    for team in teams:
        wanted, observed = derived[team.pk], None
        if namespaces.get(team.namespace_name) == team.slug:
            observed = standing.get(team.namespace_name, {})
            if observed == wanted and not _in_range(ranges.get(team.namespace_name), wanted):
                drifted += 1
                _set_right(client, team, wanted, observed, expected=False)
            elif observed != wanted:
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


def _namespaces(client: ClusterClient) -> dict[str, str]:
    """The slug of the team by the name of its namespace: one that is labelled for another team is left alone."""
    items = client.list(kinds.NAMESPACE, label_selector=selector()).items
    return {
        item["metadata"]["name"]: item["metadata"]["labels"].get(TEAM, "")
        for item in items
        if not item["metadata"].get("deletionTimestamp")
    }


def _standing(client: ClusterClient) -> dict[str, Units]:
    items = client.list(kinds.RESOURCE_QUOTA, label_selector=selector()).items
    return {
        item["metadata"]["namespace"]: _units(item)
        for item in items
        if item["metadata"]["name"] == QUOTA_NAME
    }


def _ranges(client: ClusterClient) -> dict[str, Mapping[str, Any]]:
    items = client.list(kinds.LIMIT_RANGE, label_selector=selector()).items
    return {
        item["metadata"]["namespace"]: item for item in items if item["metadata"]["name"] == LIMIT_RANGE_NAME
    }


def _in_range(standing: Mapping[str, Any] | None, limits: Units) -> bool:
    """Whether the LimitRange says what is derived; what the API server adds to it is no difference."""
    wanted = limit_items(limits)
    if standing is None:
        return False
    return _amounts(wanted, wanted) == _amounts((standing.get("spec") or {}).get("limits") or (), wanted)


def _amounts(items: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The quantities of the items and fields that `wanted` has."""
    by_type = {item["type"]: item for item in items}
    return {
        f"{item['type']}.{part}": {
            name: quantities.parse(text)
            for name, text in (by_type.get(item["type"], {}).get(part) or {}).items()
        }
        for item in wanted
        for part in item
        if part != "type"
    }


def _units(manifest: Mapping[str, Any]) -> Units:
    """What the ResourceQuota limits: units per extended resource name, and of ceilings cores, bytes and numbers."""
    hard = (manifest.get("spec") or {}).get("hard") or {}
    named = {
        key.removeprefix(PREFIX): text
        for key, text in hard.items()
        if key.startswith(PREFIX) or key in COUNTED
    }
    return {name: int(quantities.parse(text)) for name, text in named.items()}
