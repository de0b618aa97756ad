"""The only writers of quotas and claims; counters and claims change in one transaction."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Least

from foundation.errors import Invalid
from quotas.errors import QuotaExceeded
from quotas.models import Claim, ClaimPurpose, ClaimState, Quota, QuotaChange
from quotas.queries import queue
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team
from workloads.models import ResourceFlavor, Workload
from workloads.services import wake
from workloads.states import Phase, Reason

NOMINAL_MAX = 1_000_000
WOKEN_MAX = 20
"""How many waiters a release wakes: who is admitted hints at the next, so the others need not look in vain."""


def lock_quota(*, team: Team, flavor: ResourceFlavor, capacity_type: str) -> Quota | None:
    """The quota's row, locked until the transaction ends: admissions of one quota happen one after another."""
    rows = Quota.objects.select_for_update(no_key=True)
    return rows.filter(team=team, flavor=flavor, capacity_type=capacity_type).first()


def claim(
    *,
    workload: Workload,
    quota: Quota,
    units: int,
    now: datetime,
    purpose: ClaimPurpose = ClaimPurpose.WORKLOAD,
) -> Claim:
    """Reserve units for the workload; the same claim again if it has one. QuotaExceeded if they do not fit."""
    with transaction.atomic():
        existing = _open_claims(workload).filter(purpose=purpose).first()
        if existing is not None:
            return existing
        fits = Quota.objects.filter(pk=quota.pk, nominal__gte=F("used") + units)
        if not fits.update(used=F("used") + units):
            raise QuotaExceeded(f"{units} do not fit into {quota}.")
        return Claim.objects.create(
            workload=workload, quota=quota, units=units, purpose=purpose, reserved_at=now
        )


def activate(*, workload: Workload, now: datetime) -> None:
    """The workload's pods start: its reservation becomes use."""
    Claim.objects.filter(workload=workload, state=ClaimState.RESERVED).update(
        state=ClaimState.ACTIVE, activated_at=now
    )


def release(*, workload: Workload, now: datetime, purpose: ClaimPurpose | None = None) -> bool:
    """Give back what the workload holds, or only for one purpose, and wake who waits; False if it held nothing."""
    with transaction.atomic():
        held = _open_claims(workload).select_for_update(no_key=True)
        if purpose is not None:
            held = held.filter(purpose=purpose)
        claims = list(held.order_by("pk"))
        for each in claims:
            _release_one(each, now)
    return bool(claims)


def _release_one(held: Claim, now: datetime) -> None:
    held.state, held.released_at = ClaimState.RELEASED, now
    held.save(update_fields=["state", "released_at"])
    Quota.objects.filter(pk=held.quota_id).update(
        used=F("used") - held.units, grandfathered=Least(F("grandfathered"), F("used") - held.units)
    )
    quota = held.quota
    line = queue(team=quota.team, flavor=quota.flavor, capacity_type=quota.capacity_type, now=now)
    wake(workload_ids=list(line.values_list("pk", flat=True)[:WOKEN_MAX]), now=now)


def _open_claims(workload: Workload) -> QuerySet[Claim]:
    return Claim.objects.filter(workload=workload).exclude(state=ClaimState.RELEASED)


def wake_queue(quota: Quota, *, now: datetime) -> None:
    """Make everybody who waits for this quota due, but for those who rest in a back-off."""
    waiting = Workload.objects.filter(
        team=quota.team_id,
        flavor=quota.flavor_id,
        capacity_type=quota.capacity_type,
        phase=Phase.QUEUED.value,
    ).exclude(reason=Reason.BACKOFF_WAITING.value)
    wake(workload_ids=list(waiting.values_list("pk", flat=True)), now=now)


def set_nominal(
    *,
    team: Team,
    flavor: ResourceFlavor,
    capacity_type: str,
    nominal: int,
    reason: str,
    actor: Actor,
    now: datetime,
) -> Quota:
    """Make or change a quota. A cut below use keeps what runs and admits nothing more until it fits."""
    if not 0 <= nominal <= NOMINAL_MAX:
        raise Invalid.of_field("nominal", f"Choose 0 to {NOMINAL_MAX}.", code="out_of_range")
    with transaction.atomic():
        Quota.objects.get_or_create(
            team=team, flavor=flavor, capacity_type=capacity_type, defaults={"nominal": nominal}
        )
        quota = Quota.objects.select_for_update(no_key=True).get(
            team=team, flavor=flavor, capacity_type=capacity_type
        )
        last = QuotaChange.objects.filter(quota=quota).first()
        old = quota.nominal if last else None
        if last and old == nominal:
            return quota
        quota.nominal = nominal
        quota.grandfathered = quota.used if nominal < quota.used else 0
        quota.save(update_fields=["nominal", "grandfathered"])
        _record_change(quota, old=old, new=nominal, actor=actor, reason=reason, now=now)
        wake_queue(quota, now=now)
    return quota


def remove_quota(*, quota: Quota, reason: str, actor: Actor, now: datetime) -> None:
    """Remove a quota that nobody has ever claimed from; else set it to 0 instead."""
    if quota.claims.exists():
        raise QuotaExceeded(f"{quota} has claims; set it to 0 instead.")
    with transaction.atomic():
        _record_change(quota, old=quota.nominal, new=None, actor=actor, reason=reason, now=now)
        quota.delete()


def _record_change(
    quota: Quota, *, old: int | None, new: int | None, actor: Actor, reason: str, now: datetime
) -> None:
    QuotaChange.objects.create(
        quota=quota,
        team_slug=quota.team.slug,
        flavor_name=quota.flavor.name,
        capacity_type=quota.capacity_type,
        old_nominal=old,
        new_nominal=new,
        actor=actor.label,
        reason=reason,
        at=now,
    )
    record_audit(
        actor=actor,
        action="quota.changed",
        target_kind="quota",
        target_id=str(quota.public_id),
        team=quota.team,
        before={"nominal": old},
        after={"nominal": new},
        reason=reason,
        now=now,
    )
