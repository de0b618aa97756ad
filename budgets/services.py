"""What quota managers do with budgets: make, change, remove and preview them, and give on top of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from budgets.checks import check_values
from budgets.looks import wake_those
from budgets.periods import held, holding_now, span_of
from budgets.reservations import close_all, opened, renew
from budgets.signals import budget_freed
from budgets.spending import costing, holding_of, seconds_left
from budgets.standings import BudgetStanding, standing
from budgets.telling import tell_override
from costs.models import Budget, BudgetOverride, BudgetReservation
from foundation.errors import Invalid, NotFound
from foundation.http.etag import Versions, check_version, version_of
from policy.budgets import lasts_until, usd
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team
from workloads.models import Workload
from workloads.states import Desired, Phase

CHANGEABLE: Final = ("period", "starts_at", "ends_at", "amount_micro_usd", "warn_percents", "endpoints")
PREVIEWED_MOST: Final = 200


@dataclass(frozen=True)
class Stopped:
    """A run or endpoint that a change of the budget would stop, and when it begins to stop."""

    workload: Workload
    at: datetime


@dataclass(frozen=True)
class Preview:
    """How a budget would stand after a change, and whom that would stop or keep waiting."""

    standing: BudgetStanding
    stopped: tuple[Stopped, ...]
    waiting: tuple[Workload, ...]


def create_budget(*, team: Team, values: Mapping[str, Any], actor: Actor, now: datetime) -> Budget:
    """A budget of the team. Raises Invalid, naming the field, for what cannot be, also for a second one at a time.

    What runs already is promised money in the order of its admission; what gets none is stopped.
    """
    with transaction.atomic():
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        budget = Budget(
            team=team,
            created_at=now,
            created_by=actor.label,
            changed_at=now,
            changed_by=actor.label,
            **{name: value for name, value in values.items() if name in CHANGEABLE},
        )
        check_values(budget, now)
        budget.save()
        _audit("created", budget, actor, now, after=_facts(budget))
        _apply(budget, now)
    return budget


def change_budget(
    *,
    budget: Budget,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> Budget:
    """Change what is given of a budget; all promises are made again by that, in the order of admission.

    Raises Invalid, naming the field; PreconditionFailed unless its version is among `expected_versions`.
    """
    with transaction.atomic():
        fresh = _held(budget)
        check_version(expected=expected_versions, current=version_of(fresh))
        before = _facts(fresh)
        for name in CHANGEABLE:
            if name in changes:
                setattr(fresh, name, changes[name])
        check_values(fresh, now)
        if _facts(fresh) == before:
            return fresh
        fresh.changed_at, fresh.changed_by = now, actor.label
        fresh.save()
        _audit("changed", fresh, actor, now, before=before, after=_facts(fresh))
        _apply(fresh, now)
    return fresh


def delete_budget(
    *, budget: Budget, actor: Actor, now: datetime, expected_versions: Versions | None = None
) -> None:
    """Remove a budget: nothing limits what its team spends any more, and what waited for it may start."""
    with transaction.atomic():
        fresh = _held(budget)
        check_version(expected=expected_versions, current=version_of(fresh))
        _audit("deleted", fresh, actor, now, before=_facts(fresh))
        team = fresh.team
        fresh.delete()
        budget_freed.send(sender=Budget, team=team, now=now)


def give_on_top(
    *,
    budget: Budget,
    amount_micro_usd: int,
    reason: str,
    expires_at: datetime | None,
    actor: Actor,
    now: datetime,
) -> BudgetOverride:
    """An amount on top in the present period, until it expires; until the period ends where no time is given."""
    with transaction.atomic():
        fresh = _held(budget)
        period = opened(fresh, now=now)
        if period is None:
            raise Invalid(
                "This budget does not hold now: its period is over, or is yet to begin.", code="not_now"
            )
        if amount_micro_usd <= 0:
            raise Invalid.of_field("amount_micro_usd", "Give more than 0.", code="min_value")
        if not reason.strip():
            raise Invalid.of_field("reason", "Say why.", code="required")
        until = expires_at or period.ends_at
        if not now < until <= period.ends_at:
            message = f"It expires in the present period, which ends at {period.ends_at:%Y-%m-%d %H:%M} UTC."
            raise Invalid.of_field("expires_at", message, code="out_of_range")
        override = BudgetOverride.objects.create(
            budget=fresh,
            amount_micro_usd=amount_micro_usd,
            reason=reason,
            actor=actor.label,
            created_at=now,
            expires_at=until,
        )
        facts = {"amount_micro_usd": amount_micro_usd, "expires_at": until.isoformat()}
        _audit("override", fresh, actor, now, after=facts, reason=reason)
        renew(period, now=now)
        amount = usd(amount_micro_usd)
        said = f"{actor.label} gave team {fresh.team.slug} {amount} on top of its budget until {until:%Y-%m-%d %H:%M} UTC"
        tell_override(period, f"{said}: {reason}", now=now)
        budget_freed.send(sender=Budget, team=fresh.team, now=now)
    return override


def preview(
    *, team: Team, budget: Budget | None, values: Mapping[str, Any], actor: Actor, now: datetime
) -> Preview:
    """How the team's budget would stand after the change: the change is made as it would be, looked at, and taken back."""
    with transaction.atomic():
        if budget is None:
            changed = create_budget(team=team, values=values, actor=actor, now=now)
        else:
            changed = change_budget(budget=budget, changes=values, actor=actor, now=now)
        answer = Preview(standing(changed, now=now), _stopped(changed, now), _waiting(changed, now))
        transaction.set_rollback(True)
    return answer


def _stopped(budget: Budget, now: datetime) -> tuple[Stopped, ...]:
    span = span_of(budget, now)
    if span is None:
        return ()
    known, ends = costing(), int(span.ends_at.timestamp())
    granted = dict(
        BudgetReservation.objects.filter(period__budget=budget, closed_at__isnull=True).values_list(
            "workload", "granted_micro_usd"
        )
    )
    found = []
    for workload, began in holding_of(budget.team):
        left = seconds_left(workload, began, now)
        kept = not workload.own_kind.ends and budget.endpoints == Budget.Endpoints.ALERT
        flavor = workload.flavor
        if kept or flavor is None or workload.phase == Phase.STOPPING.value or workload.pk not in granted:
            continue
        start, cards = int(now.timestamp()), workload.units * flavor.gpu_fraction
        # The promise was made anew just now, and nothing of it is used.
        lasts = lasts_until(known.prices(workload), cards, start, granted[workload.pk])
        if lasts is None or lasts >= ends:
            continue
        if left is None:
            # What has no end needs its rolling hour, and stops without it.
            if granted[workload.pk] >= known.need(workload, None, now=now, ends_at=span.ends_at).whole:
                continue
        elif lasts >= start + left + known.tail:
            continue
        found.append(Stopped(workload, datetime.fromtimestamp(max(start, lasts - known.tail), tz=now.tzinfo)))
    return tuple(found)


def _waiting(budget: Budget, now: datetime) -> tuple[Workload, ...]:
    period = opened(budget, now=now)
    if period is None:
        return ()
    left, known = period.ceiling_micro_usd - period.committed_micro_usd, costing()
    queued = Workload.objects.filter(
        team=budget.team, phase=Phase.QUEUED.value, desired=Desired.RUN.value, units__gt=0
    ).select_related("flavor", "team")
    return tuple(
        row
        for row in queued.order_by("queued_at", "pk")[:PREVIEWED_MOST]
        if known.need(row, seconds_left(row, None, now), now=now, ends_at=period.ends_at).least > left
    )


def _held(budget: Budget) -> Budget:
    """The budget's row, locked until the transaction ends."""
    fresh = held().filter(pk=budget.pk).first()
    if fresh is None:
        raise NotFound("This budget is gone.")
    return fresh


def _apply(budget: Budget, now: datetime) -> None:
    """Make all promises again by what the budget says now, and wake those whom they concern."""
    current = span_of(budget, now)
    # A period of another kind, or with another beginning, does not go on.
    stale = budget.periods.exclude(starts_at=current.starts_at) if current else budget.periods.all()
    close_all(BudgetReservation.objects.filter(period__in=stale), now=now)
    period = opened(budget, now=now)
    if period is not None:
        if current is not None and period.ends_at != current.ends_at:
            period.ends_at = current.ends_at
        period.told_percents, period.told_forecast = [], False
        period.save(update_fields=["ends_at", "told_percents", "told_forecast"])
        renew(period, now=now, anew=True)
        promised = period.reservations.filter(closed_at__isnull=True)
        wake_those(list(promised.values_list("workload", flat=True)), now=now)
    budget_freed.send(sender=Budget, team=budget.team, now=now)


def live_budgets(teams: Collection[Team], *, now: datetime) -> dict[int, Budget]:
    """The budgets that hold now, by the keys of their teams."""
    return {row.team_id: row for row in Budget.objects.filter(holding_now(now), team__in=teams)}


def _facts(budget: Budget) -> dict[str, Any]:
    values = {name: getattr(budget, name) for name in CHANGEABLE}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()
    }


def _audit(action: str, budget: Budget, actor: Actor, now: datetime, **more: Any) -> None:
    record_audit(
        actor=actor,
        action=f"budget.{action}",
        target_kind="budget",
        target_id=str(budget.public_id),
        target_name=budget.team.slug,
        team=budget.team,
        now=now,
        **more,
    )
