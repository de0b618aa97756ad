"""What becomes of the quota of a team that is closed: it goes back to whom it came from, and its cohort counts on it no more."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from quotas.changes import LimitChange, apply_changes
from quotas.counters import pool_changed
from quotas.models import Quota, QuotaChangeSet
from teams.actors import Actor
from teams.models import Team


def pools_changed(*, team: Team, now: datetime) -> None:
    """Let the pools in which the team has a quota be passed over anew, in the caller's transaction."""
    pools = Quota.objects.filter(team=team).values_list("flavor", "capacity_type")
    for flavor_id, capacity_type in sorted(pools):
        pool_changed(flavor_id=flavor_id, capacity_type=capacity_type, now=now)


def give_back(*, team: Team, actor: Actor, now: datetime) -> QuotaChangeSet | None:
    """Set every quota of a team that is being closed to 0, to be taken back as one change; None where all are 0.

    What others of its cohort have borrowed of it they keep until it ends, as after any cut: nothing more is lent to them.
    """
    with transaction.atomic():
        held = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        own = Quota.objects.filter(team=held).exclude(Q(nominal=0) & Q(borrowing_limit=0))
        changes = [
            LimitChange(held, quota.flavor, quota.capacity_type, {"nominal": 0, "borrowing_limit": 0})
            for quota in own.select_related("flavor").order_by("pk")
        ]
        if held.closing_since is None or not changes:
            return None
        reason = f"Team {held.slug} was closed: {held.closing_reason}"
        return apply_changes(changes=changes, reason=reason, evicts=False, actor=actor, now=now)
