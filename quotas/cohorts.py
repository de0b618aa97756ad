"""Cohorts, their limits and their members. Every change derives the trees that it touches anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from foundation.errors import Conflict, Invalid, NotFound
from foundation.http.etag import Versions, check_version, version_of
from quotas.checks import check_capacity_type, check_limits, check_manager, check_reason
from quotas.cohort_trees import CohortTree, lock_tree, one_at_a_time
from quotas.counters import pool_changed
from quotas.models import Cohort, CohortUsage, QuotaChange
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import SLUG_PATTERN, Team
from workloads.models import ResourceFlavor

NAME_LENGTH_MAX = 63
COHORT_LIMITS = ("borrowing_limit", "lending_limit")


def create_cohort(*, name: str, parent: Cohort | None, actor: Actor, now: datetime) -> Cohort:
    """A cohort without members. Raises Conflict when the name is taken, Invalid for a malformed one."""
    check_manager(actor)
    if len(name) > NAME_LENGTH_MAX or not re.fullmatch(SLUG_PATTERN, name):
        message = f"Up to {NAME_LENGTH_MAX} lower-case letters, digits and hyphens, beginning with a letter."
        raise Invalid.of_field("name", message, code="invalid_name")
    with transaction.atomic():
        one_at_a_time()
        if Cohort.objects.filter(name=name).exists():
            raise Conflict.of_field("name", f"There is a cohort {name} already.", code="name_taken")
        cohort = Cohort.objects.create(name=name, parent=_fresh(parent) if parent else None)
        _audit("cohort.create", cohort, before=None, after=_values(cohort), actor=actor, now=now)
    return cohort


def move_cohort(
    *,
    cohort: Cohort,
    parent: Cohort | None,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> Cohort:
    """Put a cohort below another, or on top. Raises Invalid (field `parent`, code `cycle`) below itself,
    PreconditionFailed for a cohort of another version than is expected.
    """
    check_manager(actor)
    with transaction.atomic():
        one_at_a_time()
        moved = _fresh(cohort)
        check_version(expected=expected_versions, current=version_of(moved))
        above = _fresh(parent) if parent else None
        if moved.parent_id == (above.pk if above else None):
            return moved
        path = _path(above) if above else []
        if moved in path:
            message = f"{moved.name} is {'above ' if path[0] != moved else ''}{path[0].name}: that would be a cycle."
            raise Invalid.of_field("parent", message, code="cycle")
        before, left = _values(moved), _path(moved)[-1].name
        # Both trees are locked before it moves: claims climb the old way to their end, or the new one.
        lock_tree(cohort_names=[left, *(ancestor.name for ancestor in path)])
        moved.parent = above
        moved.save(update_fields=["parent"])
        _audit("cohort.move", moved, before=before, after=_values(moved), actor=actor, now=now)
        settle(lock_tree(cohort_names=[left, moved.name]), now)
    return moved


def delete_cohort(
    *, cohort: Cohort, actor: Actor, now: datetime, expected_versions: Versions | None = None
) -> None:
    """Raises Conflict while a team or another cohort is in it, PreconditionFailed as `move_cohort`."""
    check_manager(actor)
    with transaction.atomic():
        one_at_a_time()
        gone = _fresh(cohort)
        check_version(expected=expected_versions, current=version_of(gone))
        if Team.objects.filter(cohort_name=gone.name).exists() or gone.children.exists():
            raise Conflict(f"Cohort {gone.name} has members; move them first.", code="cohort_in_use")
        _audit("cohort.delete", gone, before=_values(gone), after=None, actor=actor, now=now)
        gone.delete()


def set_cohort_limits(
    *,
    cohort: Cohort,
    flavor: ResourceFlavor,
    capacity_type: str,
    borrowing_limit: int | None,
    lending_limit: int | None,
    reason: str,
    actor: Actor,
    now: datetime,
) -> CohortUsage:
    """What the cohort takes from its parent, and lends to it, at most; None for no limit.

    Of a cohort without a parent both are kept, and have no effect until it has one.
    """
    check_manager(actor)
    check_reason(reason)
    check_capacity_type(capacity_type)
    after = {"borrowing_limit": borrowing_limit, "lending_limit": lending_limit}
    check_limits(after, COHORT_LIMITS)
    pool = (flavor.pk, capacity_type)
    with transaction.atomic():
        one_at_a_time()
        changed = _fresh(cohort)
        tree = lock_tree(cohort_names=[changed.name], pools=[pool])
        usage = tree.usage(changed.pk, pool)
        before = {name: getattr(usage, name) for name in COHORT_LIMITS}
        if before == after:
            return usage
        usage.borrowing_limit, usage.lending_limit = borrowing_limit, lending_limit
        QuotaChange.objects.create(
            team_slug="",
            flavor_name=flavor.name,
            capacity_type=capacity_type,
            before={"cohort": changed.name, **before},
            after={"cohort": changed.name, **after},
            actor=actor.label,
            reason=reason,
            at=now,
        )
        where = {"flavor": flavor.name, "capacity": capacity_type}
        _audit(
            "cohort.limits",
            changed,
            before=where | before,
            after=where | after,
            actor=actor,
            now=now,
            reason=reason,
        )
        settle(tree, now)
    return usage


def join(*, team: Team, left: str, now: datetime) -> None:
    """The team has changed its cohort in this transaction: derive what it left and what it has come to.

    Raises Invalid (field `cohort`) where there is no such cohort.
    """
    with transaction.atomic():
        one_at_a_time()
        if team.cohort_name and not Cohort.objects.filter(name=team.cohort_name).exists():
            message = f"There is no cohort {team.cohort_name}."
            raise Invalid.of_field("cohort", message, code="unknown_cohort")
        settle(lock_tree(team_ids=[team.pk], cohort_names=[left]), now)


def settle(tree: CohortTree, now: datetime) -> None:
    """Derive and write all of it, and let its pools be passed over anew."""
    tree.settle()
    for flavor_id, capacity_type in tree.pools:
        pool_changed(flavor_id=flavor_id, capacity_type=capacity_type, now=now)


def _fresh(cohort: Cohort) -> Cohort:
    fresh = Cohort.objects.filter(pk=cohort.pk).first()
    if fresh is None:
        raise NotFound("This cohort is gone.")
    return fresh


def _path(cohort: Cohort) -> list[Cohort]:
    """The cohort and all above it, the root last."""
    path = [cohort]
    while path[-1].parent is not None:
        path.append(path[-1].parent)
    return path


def _values(cohort: Cohort) -> dict[str, Any]:
    return {"name": cohort.name, "parent": cohort.parent.name if cohort.parent else None}


def _audit(
    action: str,
    cohort: Cohort,
    *,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> None:
    record_audit(
        actor=actor,
        action=action,
        target_kind="cohort",
        target_id=cohort.public_id,
        target_name=cohort.name,
        before=before,
        after=after,
        reason=reason,
        now=now,
    )
