"""Members ask for more until a date; a quota manager decides; what was given returns by itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.dispatch import Signal

from foundation import leases
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound
from quotas.changes import ChangePreview, LimitChange, preview_changes
from quotas.checks import (
    NOMINAL_MAX,
    check_capacity_type,
    check_manager,
    check_may_ask,
    check_reason,
    check_whole,
)
from quotas.cohort_trees import one_at_a_time
from quotas.limits import set_limits
from quotas.models import Quota, QuotaChangeSet, QuotaRequest
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team
from teams.permissions import hold_open
from workloads.models import ResourceFlavor

RETURNS = Actor.system("quota-requests")
DAYS_MAX = 366
PENDING_MAX = 20
"""Of a team. Those whose date comes are ended one by one, in the pass of their pool: many of one date held up all in it."""
State = QuotaRequest.State

request_decided = Signal()
"""A quota manager has approved or denied `request` at `now`; in the transaction of the decision."""


def request_quota(
    *,
    team: Team,
    flavor: ResourceFlavor,
    capacity_type: str,
    units: int,
    until: datetime,
    reason: str,
    actor: Actor,
    now: datetime,
) -> QuotaRequest:
    """Ask for `units` on top of the nominal quota until a date. By a member or lead of the team, or a quota manager, who gives it
    for a time by approving what they asked for.

    Raises Invalid with the field, NotFound for a stranger, NotAllowed for a viewer, Conflict while as many of the team's as may
    be wait for a decision, TeamClosed for a team that takes nothing new.
    """
    if actor.user is None:
        raise NotAllowed("Only a user can ask for quota.")
    check_may_ask(actor.user, team)
    check_reason(reason)
    check_capacity_type(capacity_type)
    check_whole("units", units, least=1, most=NOMINAL_MAX)
    if not now < until <= now + timedelta(days=DAYS_MAX):
        raise Invalid.of_field(
            "until", f"Choose a time to come, within {DAYS_MAX} days.", code="out_of_range"
        )
    with transaction.atomic():
        # Counted and made one after the other.
        hold_open(team)
        if QuotaRequest.objects.filter(team=team, state=State.PENDING).count() >= PENDING_MAX:
            message = f"{PENDING_MAX} requests of team {team.slug} wait for a decision, which is the most. Take one back."
            raise Conflict(message, code="too_many_requests")
        made = QuotaRequest.objects.create(
            team=team,
            flavor=flavor,
            capacity_type=capacity_type,
            units=units,
            until=until,
            reason=reason,
            requested_by=actor.user,
            requested_at=now,
        )
        _audit(made, "quota-request.create", actor=actor, now=now, reason=reason)
    return made


def approve_request(*, request: QuotaRequest, comment: str, actor: Actor, now: datetime) -> QuotaRequest:
    """Raise the team's nominal quota by what was asked for, until the date. By a quota manager.

    It is one change set, which can be taken back. Raises Conflict unless the request is pending, Invalid (field `until`)
    when its date has come meanwhile.
    """
    check_manager(actor)
    with transaction.atomic():
        asked = _pending(request)
        if asked.until <= now:
            raise Invalid.of_field("until", "The date of this request has come.", code="out_of_range")
        reason = f"Asked for by {asked.requested_by}: {asked.reason}"
        asked.change_set = _add(asked, asked.units, reason, actor, now)
        return _decide(asked, State.APPROVED, comment=comment, actor=actor, now=now)


def preview_request(*, request: QuotaRequest, now: datetime) -> ChangePreview:
    """What approving it now would do: as the change set that it would be."""
    limits = {"nominal": _nominal(request) + request.units}
    change = LimitChange(request.team, request.flavor, request.capacity_type, limits)
    return preview_changes(changes=[change], evicts=False, now=now)


def deny_request(*, request: QuotaRequest, comment: str, actor: Actor, now: datetime) -> QuotaRequest:
    """Refuse it. By a quota manager. Raises Conflict unless the request is pending."""
    check_manager(actor)
    with transaction.atomic():
        return _decide(_pending(request), State.DENIED, comment=comment, actor=actor, now=now)


def deny_pending(*, team: Team, comment: str, actor: Actor, now: datetime) -> int:
    """Refuse all that the team still asks for, in the caller's transaction, which holds the team's row; how many."""
    rows = QuotaRequest.objects.select_for_update(no_key=True, of=("self",))
    rows = rows.select_related("team", "flavor", "requested_by").filter(team=team, state=State.PENDING)
    for asked in (pending := list(rows.order_by("pk"))):
        _decide(asked, State.DENIED, comment=comment, actor=actor, now=now)
    return len(pending)


def withdraw_request(*, request: QuotaRequest, actor: Actor, now: datetime) -> QuotaRequest:
    """Take the request back; only the member who asked may. Raises Conflict unless it is pending."""
    if actor.user is None or actor.user.pk != request.requested_by_id:
        raise NotAllowed("Only who asked may withdraw a request.", code="not_yours")
    with transaction.atomic():
        asked = _pending(request)
        asked.state = State.WITHDRAWN
        asked.save(update_fields=["state"])
        _audit(asked, "quota-request.withdraw", actor=actor, now=now)
    return asked


def return_due(*, now: datetime, pool: tuple[int, str] | None = None) -> int:
    """Take back quota whose end has come, and drop requests that no one answered by their end.

    For one pool (flavor and capacity type) or for all; how many quotas were lowered. Each is its own transaction; one
    that was handled meanwhile is left alone.
    """
    due = QuotaRequest.objects.filter(state__in=[State.APPROVED, State.PENDING], until__lte=now)
    if pool is not None:
        due = due.filter(flavor=pool[0], capacity_type=pool[1])
    return sum(
        _return(request_id, now) for request_id in due.order_by("until", "pk").values_list("pk", flat=True)
    )


def _return(request_id: int, now: datetime) -> bool:
    with transaction.atomic():
        leases.check()
        rows = QuotaRequest.objects.select_for_update(no_key=True, of=("self",))
        asked = rows.select_related("team", "flavor").get(pk=request_id)
        if asked.state == State.PENDING:
            asked.state = State.EXPIRED
            asked.save(update_fields=["state"])
            _audit(asked, "quota-request.expire", actor=RETURNS, now=now)
            return False
        if asked.state != State.APPROVED:
            return False
        _add(asked, -asked.units, f"Given until {asked.until:%Y-%m-%d %H:%M}.", RETURNS, now)
        asked.state, asked.returned_at = State.RETURNED, now
        asked.save(update_fields=["state", "returned_at"])
        _audit(asked, "quota-request.return", actor=RETURNS, now=now)
    return True


def _add(asked: QuotaRequest, units: int, reason: str, actor: Actor, now: datetime) -> QuotaChangeSet | None:
    """Add to the current nominal quota, or subtract from it: changes by managers meanwhile are kept. None where there is
    nothing to take.
    """
    one_at_a_time()
    nominal = _nominal(asked)
    if units < 0 and not nominal:
        return None
    made = QuotaChangeSet.objects.create(actor=actor.label, reason=reason, at=now)
    set_limits(
        team=asked.team,
        flavor=asked.flavor,
        capacity_type=asked.capacity_type,
        limits={"nominal": max(0, nominal + units)},
        reason=reason,
        actor=actor,
        now=now,
        change_set=made,
    )
    return made


def _nominal(asked: QuotaRequest) -> int:
    rows = Quota.objects.filter(team=asked.team_id, flavor=asked.flavor_id, capacity_type=asked.capacity_type)
    return rows.values_list("nominal", flat=True).first() or 0


def _pending(request: QuotaRequest) -> QuotaRequest:
    """The request's row, locked. Raises Conflict when it was decided already."""
    rows = QuotaRequest.objects.select_for_update(no_key=True, of=("self",))
    asked = rows.select_related("team", "flavor", "requested_by").filter(pk=request.pk).first()
    if asked is None:
        raise NotFound("This request is gone.")
    if asked.state != State.PENDING:
        raise Conflict(f"This request is {asked.state} already.", code="decided_already")
    return asked


def _decide(asked: QuotaRequest, state: str, *, comment: str, actor: Actor, now: datetime) -> QuotaRequest:
    asked.state, asked.comment, asked.decided_by, asked.decided_at = state, comment, actor.user, now
    asked.save(update_fields=["state", "comment", "decided_by", "decided_at", "change_set"])
    verb = "approve" if state == State.APPROVED else "deny"
    _audit(asked, f"quota-request.{verb}", actor=actor, now=now, reason=comment)
    request_decided.send(sender=QuotaRequest, request=asked, now=now)
    return asked


def _audit(asked: QuotaRequest, action: str, *, actor: Actor, now: datetime, reason: str = "") -> None:
    record_audit(
        actor=actor,
        action=action,
        target_kind="quota-request",
        target_id=asked.public_id,
        target_name=f"{asked.units} {asked.flavor.name} {asked.capacity_type}",
        team=asked.team,
        after={
            "flavor": asked.flavor.name,
            "capacity": asked.capacity_type,
            "units": asked.units,
            "until": asked.until,
            "state": str(asked.state),
        },
        reason=reason,
        now=now,
    )
