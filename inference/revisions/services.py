"""What a new revision of an endpoint would do, and making it: the one way to change an endpoint that exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from costs.queries import rate_now, spans_by_card
from foundation.errors import Conflict, FieldProblem, Invalid
from inference.changes import FIXED_FIELDS, Effect, SpecChange, changes_between, same_pods, with_size_of
from inference.errors import RolloutBlocked
from inference.models import Endpoint, EndpointRevision, RevisionCause, RevisionState
from inference.revisions.guard import Guarded, guard
from inference.specs import EndpointSpec
from quotas.queries import team_quotas
from teams.actors import Actor
from teams.models import User
from workloads.models import Workload

_UNFINISHED = (RevisionState.PENDING.value, RevisionState.ROLLING_OUT.value)


@dataclass(frozen=True)
class Planned:
    """A revision that a user may make: what it changes against the current one, and how it would be rolled out."""

    endpoint: Endpoint
    spec: EndpointSpec
    changes: tuple[SpecChange, ...]
    pods_of: int | None
    """The revision that has the same pods; None where it needs pods of its own."""
    guarded: Guarded

    def changed(self, *effects: Effect) -> list[SpecChange]:
        return [change for change in self.changes if change.effect in effects]


@dataclass(frozen=True)
class Money:
    """Micro-USD per hour; None without a price."""

    at_min: int | None
    at_max: int | None


@dataclass(frozen=True)
class Effects:
    """What a version costs and claims beside another one. `surge` is claimed on top while it is rolled out."""

    before: Money
    after: Money
    units_before: int
    units_after: int
    surge: int
    quota_before: Mapping[str, int]
    quota_after: Mapping[str, int]


def plan_revision(
    endpoint: Endpoint,
    spec: EndpointSpec,
    *,
    user: User | None,
    now: datetime,
    like: EndpointRevision | None = None,
) -> Planned:
    """What making `spec` the endpoint's next revision would do now; `like` is an older one that it may resemble."""
    wanted = spec.to_json()
    pods_of = _same_pods_as(endpoint, wanted, like)
    new_pods = pods_of is None or pods_of != endpoint.applied.pods_of
    return Planned(
        endpoint=endpoint,
        spec=spec,
        changes=tuple(changes_between(endpoint.current.spec, wanted)),
        pods_of=pods_of,
        guarded=guard(endpoint, spec, new_pods=new_pods, user=user, now=now),
    )


def _same_pods_as(endpoint: Endpoint, wanted: Mapping[str, Any], like: EndpointRevision | None) -> int | None:
    """The revision whose pods it can have: what runs, or what ran well before, never what has failed."""
    candidates = [endpoint.applied, *([like] if like else [])]
    if endpoint.stable_revision is not None:
        candidates.append(endpoint.revisions.get(number=endpoint.stable_revision))
    for candidate in candidates:
        if candidate.state != RevisionState.FAILED.value and same_pods(candidate.spec, wanted):
            return candidate.pods_of
    return None


def check_allowed(planned: Planned) -> None:
    """Raises Invalid, naming every field that cannot change while the endpoint exists."""
    fixed = {change.field.split(".", 1)[0] for change in planned.changed(Effect.FIXED)}
    if not fixed:
        return
    way = "Deploy another endpoint with it beside this one, let callers switch, then delete this one."
    problems = [
        FieldProblem(field=name, code="fixed", message=f"{FIXED_FIELDS[name]} {way}")
        for name in sorted(fixed)
    ]
    raise Invalid(f"Cannot change in place: {', '.join(sorted(fixed))}. {way}", code="fixed", errors=problems)


def check_room(planned: Planned) -> None:
    """Raises RolloutBlocked, with the ways that are left, where the rollout has no room now."""
    if planned.guarded.blocked:
        message = f"{' '.join(planned.guarded.blocked)} Nothing was changed: choose one of the options."
        raise RolloutBlocked(message, options=[option.to_json() for option in planned.guarded.options])


def add_revision(
    planned: Planned,
    *,
    actor: Actor,
    now: datetime,
    cause: RevisionCause = RevisionCause.CHANGE,
    returns_to: int | None = None,
) -> EndpointRevision:
    """The next revision, in the caller's transaction, which holds the workload's row. Older ones wait no longer."""
    endpoint = planned.endpoint
    endpoint.revision += 1
    supersede_unfinished(endpoint)
    endpoint.save(update_fields=["revision"])
    endpoint.bound_hold(planned.spec)
    return EndpointRevision.objects.create(
        endpoint=endpoint,
        number=endpoint.revision,
        spec=planned.spec.to_json(),
        actor=actor.label,
        created_at=now,
        cause=cause.value,
        returns_to=returns_to,
        pods_of=endpoint.revision if planned.pods_of is None else planned.pods_of,
        strategy=planned.guarded.strategy,
    )


def supersede_unfinished(endpoint: Endpoint) -> None:
    """Revisions that were not live when the one that is wanted now came."""
    unfinished = endpoint.revisions.filter(number__lt=endpoint.revision, state__in=_UNFINISHED)
    unfinished.update(
        state=RevisionState.SUPERSEDED.value,
        held_until=None,
        message=f"Revision {endpoint.revision} came before it was ready.",
    )


def first_revision(
    endpoint: Endpoint, spec: EndpointSpec, *, actor: Actor, now: datetime
) -> EndpointRevision:
    return EndpointRevision.objects.create(
        endpoint=endpoint,
        number=endpoint.revision,
        spec=spec.to_json(),
        actor=actor.label,
        created_at=now,
        pods_of=endpoint.revision,
        strategy=spec.strategy,
    )


def spec_of_return(
    endpoint: Endpoint, number: int | None, *, rollout: Mapping[str, Any] | None
) -> tuple[EndpointRevision, EndpointSpec]:
    """The revision to return to, by default the last that was ready before the current one, and the spec of that.

    How many replicas there are stays as it is. `rollout` is how to get there, where not as that revision says.
    Conflict where there is none to return to and for one that was never ready, Invalid for a number that is none.
    """
    revision = _before(endpoint) if number is None else endpoint.revisions.filter(number=number).first()
    if revision is None:
        if number is None:
            raise Conflict("No older revision was ever ready.", code="no_older_revision")
        raise Invalid.of_field("revision", f"There is no revision {number}.", code="unknown_revision")
    current = endpoint.current
    if revision.number == current.number:
        raise Conflict.of_field("revision", f"Revision {number} is the current one.", code="is_current")
    if not _was_ready(endpoint, revision):
        message = f"Revision {number} was never ready. To try it again, change the endpoint to what it says."
        raise Conflict.of_field("revision", message, code="never_ready")
    body = with_size_of(revision.spec, current.spec)
    if rollout:
        body["rollout"] = {**(body.get("rollout") or {}), **rollout}
    return revision, EndpointSpec.from_json(body)


def _was_ready(endpoint: Endpoint, revision: EndpointRevision) -> bool:
    """Whether it, or the revision whose pods it has, was ready once."""
    same = endpoint.revisions.filter(number__in={revision.number, revision.pods_of})
    return same.filter(live_at__isnull=False).exists()


def _before(endpoint: Endpoint) -> EndpointRevision | None:
    current = endpoint.current
    older = endpoint.revisions.filter(number__lt=current.number, live_at__isnull=False).order_by("-number")
    return next((revision for revision in older if not same_pods(revision.spec, current.spec)), None)


def effects_of(
    endpoint: Endpoint, before: EndpointSpec, after: EndpointSpec, *, surge: int, now: datetime
) -> Effects:
    """Money and quota of two versions, at today's price."""
    workload = endpoint.workload
    figures = _figures(workload)
    units = [spec.max_replicas * spec.gpus_per_replica for spec in (before, after)]
    return Effects(
        before=_money(workload, before, now),
        after=_money(workload, after, now),
        units_before=units[0],
        units_after=units[1],
        surge=surge,
        quota_before=figures,
        quota_after=_with(figures, units[1] - units[0]),
    )


def _money(workload: Workload, spec: EndpointSpec, now: datetime) -> Money:
    prices = spans_by_card()
    at_min, at_max = (
        rate_now(workload.flavor, workload.capacity_type, replicas * spec.gpus_per_replica, prices, now)
        for replicas in (0 if spec.scale_to_zero else spec.min_replicas, spec.max_replicas)
    )
    return Money(at_min, at_max)


def _with(figures: Mapping[str, int], more: int) -> dict[str, int]:
    """The figures with so many units more in use."""
    if not figures:
        return {}
    used = figures["used"] + more
    borrowed = max(0, used - figures["nominal"])
    return {**figures, "used": used, "borrowed": borrowed, "available": figures["available"] - more}


def _figures(workload: Workload) -> dict[str, int]:
    """The team's quota as it is; empty where it has none, or needs none."""
    for team_quota in team_quotas(workload.team):
        if (
            team_quota.quota.flavor_id == workload.flavor_id
            and team_quota.quota.capacity_type == workload.capacity_type
        ):
            quota = team_quota.quota
            return {
                "nominal": quota.nominal,
                "used": quota.used,
                "limit": team_quota.ceiling,
                "borrowed": team_quota.borrowed,
                "available": team_quota.available,
            }
    return {}
