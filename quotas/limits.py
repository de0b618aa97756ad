"""People's decisions about teams: quota limits, a team's rules, and whether its queue moves. Each records who and why.

A change locks the trees that it touches, derives what follows from it, and lets claims go on. A cut below use keeps
what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from foundation.errors import Conflict, Invalid
from foundation.http.etag import Versions, check_version, version_of
from quotas.ceilings import CEILING_MAX, COLUMNS, wake_waiting
from quotas.checks import (
    LIMITS,
    check_capacity_type,
    check_limits,
    check_manager,
    check_manager_or_lead,
    check_reason,
    check_whole,
)
from quotas.cohort_trees import lock_tree, one_at_a_time
from quotas.cohorts import create_cohort, delete_cohort, move_cohort, set_cohort_limits
from quotas.counters import pool_changed
from quotas.errors import QuotaExceeded
from quotas.models import Quota, QuotaChange, QuotaChangeSet, TeamPolicy
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team
from teams.permissions import check_open
from workloads.models import ResourceFlavor

__all__ = [
    "LIMITS",
    "create_cohort",
    "delete_cohort",
    "limits_of",
    "move_cohort",
    "rebalance",
    "remove_quota",
    "set_cohort_limits",
    "set_limits",
    "set_policy",
    "start_queue",
    "stop_queue",
]

POLICY_CHANGEABLE = ("weight", "high_priority", "shows_name", "may_reserve_headroom", *COLUMNS)
WEIGHT_MAX = 1000


def set_limits(
    *,
    team: Team,
    flavor: ResourceFlavor,
    capacity_type: str,
    limits: Mapping[str, int | None],
    reason: str,
    actor: Actor,
    now: datetime,
    change_set: QuotaChangeSet | None = None,
) -> Quota:
    """Make a quota, or change some of its LIMITS; what changes nothing leaves no trace.

    A cut below use keeps what runs and admits nothing more until it fits. A lending limit that a lower nominal quota
    leaves without meaning goes down with it. Borrowing and lending limits of a team without a cohort are kept, and
    have no effect until it is in one. Raises Invalid with the field, NotAllowed for a user who is no quota manager,
    TeamClosed where a team that takes nothing new would get more.
    """
    check_manager(actor)
    check_reason(reason)
    check_capacity_type(capacity_type)
    check_limits(limits)
    pool = (flavor.pk, capacity_type)
    with transaction.atomic():
        one_at_a_time()
        made = _make(team, flavor, capacity_type, limits)
        tree = lock_tree(team_ids=[team.pk], pools=[pool])
        quota = tree.quotas[team.pk, flavor.pk, capacity_type]
        before = None if made else limits_of(quota)
        after = _merged(limits_of(quota), limits)
        if before == after:
            return quota
        if made or (after["nominal"] or 0) > quota.nominal:
            check_open(quota.team)
        for name, value in after.items():
            setattr(quota, name, value)
        tree.settle()
        _record(quota, before=before, after=after, change_set=change_set, reason=reason, actor=actor, now=now)
        pool_changed(flavor_id=flavor.pk, capacity_type=capacity_type, now=now)
    return quota


def _make(team: Team, flavor: ResourceFlavor, capacity_type: str, limits: Mapping[str, int | None]) -> bool:
    """A new row, if there is none, with the nominal quota alone; whether there was none."""
    if Quota.objects.filter(team=team, flavor=flavor, capacity_type=capacity_type).exists():
        return False
    nominal = limits.get("nominal")
    if nominal is None:
        raise Invalid.of_field("nominal", "A new quota needs its nominal units.", code="required")
    Quota.objects.create(team=team, flavor=flavor, capacity_type=capacity_type, nominal=nominal)
    return True


def _merged(before: Mapping[str, int | None], limits: Mapping[str, int | None]) -> dict[str, int | None]:
    after = {**before, **limits}
    lending, nominal = after["lending_limit"], after["nominal"] or 0
    if lending is not None and lending > nominal:
        if limits.get("lending_limit") is not None:
            message = f"A team lends no more than its nominal quota, which is {nominal}."
            raise Invalid.of_field("lending_limit", message, code="above_nominal")
        after["lending_limit"] = nominal
    return after


def remove_quota(
    *,
    quota: Quota,
    reason: str,
    actor: Actor,
    now: datetime,
    change_set: QuotaChangeSet | None = None,
) -> None:
    """Remove a quota that has never had a claim. Raises QuotaExceeded for one that has: set that to 0 instead."""
    check_manager(actor)
    check_reason(reason)
    pool = (quota.flavor_id, quota.capacity_type)
    with transaction.atomic():
        one_at_a_time()
        tree = lock_tree(team_ids=[quota.team_id], pools=[pool])
        gone = tree.quota(quota.team_id, pool)
        if gone is None:
            return
        if gone.claims.exists():
            raise QuotaExceeded(f"{gone} has claims; set it to 0 instead.")
        before = limits_of(gone)
        _record(gone, before=before, after=None, change_set=change_set, reason=reason, actor=actor, now=now)
        tree.remove(gone)
        tree.settle()
        pool_changed(flavor_id=pool[0], capacity_type=pool[1], now=now)


def limits_of(quota: Quota) -> dict[str, int | None]:
    """The limits of a quota that people set, by the names in LIMITS."""
    return {name: getattr(quota, name) for name in LIMITS}


def rebalance(*, cohort_names: Iterable[str], flavor_id: int, capacity_type: str) -> None:
    """Derive the trees of these cohorts in one pool anew, from the limits that people set and what claims hold."""
    with transaction.atomic():
        one_at_a_time()
        lock_tree(cohort_names=cohort_names, pools=[(flavor_id, capacity_type)]).settle()


def _record(
    quota: Quota,
    *,
    before: dict[str, int | None] | None,
    after: dict[str, int | None] | None,
    change_set: QuotaChangeSet | None,
    reason: str,
    actor: Actor,
    now: datetime,
) -> None:
    QuotaChange.objects.create(
        change_set=change_set,
        quota=quota,
        team_slug=quota.team.slug,
        flavor_name=quota.flavor.name,
        capacity_type=quota.capacity_type,
        old_nominal=before["nominal"] if before else None,
        new_nominal=after["nominal"] if after else None,
        before=before,
        after=after,
        actor=actor.label,
        reason=reason,
        at=now,
    )
    old, new = before or dict.fromkeys(LIMITS), after or dict.fromkeys(LIMITS)
    changed = [name for name in LIMITS if old[name] != new[name]]
    record_audit(
        actor=actor,
        action="quota.changed",
        target_kind="quota",
        target_id=str(quota.public_id),
        target_name=f"{quota.flavor.name} {quota.capacity_type}",
        team=quota.team,
        before={name: old[name] for name in changed},
        after={name: new[name] for name in changed},
        reason=reason,
        now=now,
    )


def set_policy(
    *,
    team: Team,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> TeamPolicy:
    """A team's weight, which of its members may submit with priority high, whether other teams see its name, and its
    ceilings.

    Unchanged values write nothing. Raises Invalid with the field, NotAllowed for a user who is no quota manager,
    PreconditionFailed for a policy of another version than is expected.
    """
    check_manager(actor)
    for name, value in changes.items():
        _check_rule(name, value)
    with transaction.atomic():
        policy = _locked_policy(team)
        check_version(expected=expected_versions, current=version_of(policy))
        before = {name: getattr(policy, name) for name in changes}
        after = dict(changes)
        if before == after:
            return policy
        for name, value in after.items():
            setattr(policy, name, value)
        _save(policy, "team.policy", before, after, actor=actor, now=now)
    return policy


def _check_rule(name: str, value: Any) -> None:
    if name not in POLICY_CHANGEABLE:
        raise Invalid.of_field(name, f"A policy has {', '.join(POLICY_CHANGEABLE)}.", code="unknown_field")
    if name == "weight":
        check_whole(name, value, least=1, most=WEIGHT_MAX)
    if name == "high_priority" and value not in TeamPolicy.PriorityRight.values:
        choices = ", ".join(TeamPolicy.PriorityRight.values)
        raise Invalid.of_field(name, f"Choose one of {choices}.", code="invalid_choice")
    if name in COLUMNS and value is not None:
        check_whole(name, value, least=0, most=CEILING_MAX)
    if name in {"shows_name", "may_reserve_headroom"} and not isinstance(value, bool):
        raise Invalid.of_field(name, "Choose true or false.", code="invalid")


def stop_queue(*, team: Team, reason: str, actor: Actor, now: datetime) -> TeamPolicy:
    """Admit nothing more of this team; what runs goes on. By a lead or a quota manager. Raises Conflict if it is."""
    check_manager_or_lead(actor, team)
    check_reason(reason)
    with transaction.atomic():
        policy = _locked_policy(team)
        if policy.queue_stopped_at is not None:
            raise Conflict(f"The queue of team {team.slug} is stopped already.", code="queue_stopped")
        policy.queue_stopped_at, policy.queue_stopped_by = now, actor.user
        policy.queue_stop_reason = reason
        after = {"stopped": True}
        _save(policy, "queue.stop", {"stopped": False}, after, actor=actor, now=now, reason=reason)
    return policy


def start_queue(*, team: Team, actor: Actor, now: datetime) -> TeamPolicy:
    """Let the team's queue move again. By a lead or a quota manager. Raises Conflict if it is not stopped,
    TeamClosed for a team that takes nothing new.
    """
    check_manager_or_lead(actor, team)
    with transaction.atomic():
        policy = _locked_policy(team)
        check_open(policy.team)
        if policy.queue_stopped_at is None:
            raise Conflict(f"The queue of team {team.slug} is not stopped.", code="queue_not_stopped")
        policy.queue_stopped_at = policy.queue_stopped_by = None
        policy.queue_stop_reason = ""
        _save(policy, "queue.start", {"stopped": True}, {"stopped": False}, actor=actor, now=now)
    return policy


def _locked_policy(team: Team) -> TeamPolicy:
    TeamPolicy.objects.get_or_create(team=team)
    return (
        TeamPolicy.objects.select_for_update(no_key=True, of=("self",)).select_related("team").get(team=team)
    )


def _save(
    policy: TeamPolicy,
    action: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> None:
    policy.save()
    record_audit(
        actor=actor,
        action=action,
        target_kind="team",
        target_id=policy.team.public_id,
        target_name=policy.team.slug,
        team=policy.team,
        before=before,
        after=after,
        reason=reason,
        now=now,
    )
    transaction.on_commit(partial(wake_waiting, policy.team_id, now=now))
    pools = Quota.objects.filter(team=policy.team_id).values_list("flavor", "capacity_type")
    for flavor_id, capacity_type in sorted(pools):
        pool_changed(flavor_id=flavor_id, capacity_type=capacity_type, now=now)
