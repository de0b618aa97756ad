"""Claims on quotas. Counters and claims change in one statement or one transaction, decided by conditional updates.

Order of locks, here and in `quotas.limits`: teams by id, quotas by id, usages of cohorts (deepest first, then by id), claims and
workloads, pools last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import transaction
from django.db.models import F, QuerySet

from foundation.errors import Invalid
from foundation.models import PlatformSettings
from policy.decay import decayed, integral
from quotas.ceilings import (
    ceilings_of,
    check_amounts,
    check_ceilings,
    held_of,
    hold_team,
    lock_teams,
    wake_waiting,
)
from quotas.checks import NOMINAL_MAX, check_whole
from quotas.counters import bump_revision, count_in_cohorts, mark_due, overflow, rows
from quotas.errors import QuotaExceeded
from quotas.models import Claim, ClaimPurpose, ClaimState, Quota
from teams.models import Team
from workloads.models import ResourceFlavor, Workload

__all__ = [
    "NOMINAL_MAX",
    "Wanted",
    "activate",
    "bump_revision",
    "claim",
    "claim_many",
    "lock_quota",
    "mark_due",
    "release",
    "resize",
    "set_firm",
]


@dataclass(frozen=True)
class Wanted:
    """A claim to be made: `units` of a quota for a workload, and what its pods take of their team's ceilings; of these alone
    without a quota. Ids are those of the rows.
    """

    workload_id: int
    quota_id: int | None
    units: int
    headroom: int = 0
    lent: bool = False


def lock_quota(*, team: Team, flavor: ResourceFlavor, capacity_type: str) -> Quota | None:
    """The quota's row, locked until the transaction ends: admissions of one quota happen one after another. Its team's row is
    held before, as whoever claims does.
    """
    hold_team(team)
    rows = Quota.objects.select_for_update(no_key=True)
    return rows.filter(team=team, flavor=flavor, capacity_type=capacity_type).first()


def claim(
    *,
    workload: Workload,
    quota: Quota | None,
    units: int,
    now: datetime,
    purpose: ClaimPurpose = ClaimPurpose.WORKLOAD,
    headroom: int = 0,
    lent: bool = False,
) -> Claim:
    """Reserve units for the workload; the same claim again if it has an open one of that purpose.

    `headroom` of the units are for pods that an endpoint does not run yet. A `lent` claim lives on such headroom of
    its team. Raises QuotaExceeded if the units do not fit, with nothing changed: the caller's transaction goes on.
    """
    wanted = Wanted(workload.pk, quota.pk if quota else None, units, headroom, lent)
    _check(wanted)
    with transaction.atomic():
        _take([wanted], purpose, now)
        held = _open_claims(workload).filter(purpose=purpose).first()
    if held is None:
        raise QuotaExceeded("Its claim was given back at the same time.")
    return held


def claim_many(*, wanted: Sequence[Wanted], now: datetime) -> None:
    """Claim all of it or nothing, in a number of statements that does not grow with the number of claims.

    Workloads that have an open claim are left as they are. Raises QuotaExceeded if the rest does not fit.
    """
    for claim in wanted:
        _check(claim)
    if len({claim.workload_id for claim in wanted}) < len(wanted):
        raise ValueError("A workload is claimed for twice.")
    if wanted:
        with transaction.atomic():
            _take(wanted, ClaimPurpose.WORKLOAD, now)


_LOCK_QUOTAS = "SELECT id FROM quotas_quota WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE"
_TAKE = """
WITH made AS (
    INSERT INTO quotas_claim (workload_id, quota_id, team_id, purpose, units, headroom, lent, state, reserved_at,
        cpu, memory, storage, pods)
    SELECT workload_id, quota_id, team_id, %(purpose)s, wanted.units, headroom, lent, 'reserved', %(now)s,
        CASE WHEN %(whole)s THEN cpu_most ELSE cpu_each END, CASE WHEN %(whole)s THEN memory_most ELSE memory_each END,
        CASE WHEN %(whole)s THEN storage_most ELSE storage_each END, CASE WHEN %(whole)s THEN pods_most ELSE 1 END
    FROM unnest(%(workloads)s::bigint[], %(quotas)s::bigint[], %(units)s::int[], %(headrooms)s::int[], %(lents)s::bool[])
        AS wanted (workload_id, quota_id, units, headroom, lent)
    JOIN workloads_workload AS w ON w.id = workload_id
    ON CONFLICT DO NOTHING
    RETURNING quota_id, units, headroom, lent
), sums AS (
    SELECT quota_id, coalesce(sum(units) FILTER (WHERE NOT lent), 0) AS units, sum(headroom) AS headroom,
        coalesce(sum(units) FILTER (WHERE lent), 0) AS lent
    FROM made WHERE quota_id IS NOT NULL GROUP BY quota_id
), taken AS (
    UPDATE quotas_quota AS quota
    SET used = used + sums.units, headroom = quota.headroom + sums.headroom, lent_headroom = lent_headroom + sums.lent
    FROM sums
    WHERE id = sums.quota_id AND (sums.units = 0 OR used + sums.units <= ceiling)
        AND (sums.lent = 0 OR lent_headroom + sums.lent <= quota.headroom + sums.headroom)
    RETURNING id, used, local
)
SELECT quota_id, units::bigint, used, local FROM sums LEFT JOIN taken ON id = quota_id
"""


def _take(wanted: Sequence[Wanted], purpose: ClaimPurpose, now: datetime) -> None:
    workloads = [claim.workload_id for claim in wanted]
    teams = lock_teams(workloads)
    quotas = {claim.quota_id for claim in wanted if claim.quota_id is not None}
    if quotas:
        rows(_LOCK_QUOTAS, {"ids": sorted(quotas)})
    values = {
        "workloads": workloads,
        "quotas": [claim.quota_id for claim in wanted],
        "units": [claim.units for claim in wanted],
        "headrooms": [claim.headroom for claim in wanted],
        "lents": [claim.lent for claim in wanted],
        "purpose": purpose.value,
        "whole": purpose is ClaimPurpose.WORKLOAD,
        "now": now,
    }
    overflows = {}
    for quota_id, units, used, local in rows(_TAKE, values):
        if used is None:
            raise _exceeded([claim for claim in wanted if claim.quota_id == quota_id])
        overflows[quota_id] = overflow(used, local) - overflow(used - units, local)
    if not count_in_cohorts(overflows):
        raise _exceeded(wanted)
    check_ceilings(teams, workload_ids=workloads, now=now)


def activate(*, workload: Workload, now: datetime) -> None:
    """Mark the workload's claim active, because its pods start."""
    Claim.objects.filter(workload=workload, state=ClaimState.RESERVED).update(
        state=ClaimState.ACTIVE, activated_at=now
    )


_FREE = """
UPDATE quotas_claim SET state = 'released', released_at = %(now)s
WHERE workload_id = %(workload)s AND (quota_id IS NULL OR quota_id = ANY(%(quotas)s)) AND purpose = ANY(%(purposes)s)
    AND state <> 'released'
RETURNING quota_id, units, headroom, lent, reserved_at
"""


def release(*, workload: Workload, now: datetime, purpose: ClaimPurpose | None = None) -> bool:
    """Give back what the workload holds, or only for one purpose, and make its pool due; False if it held nothing."""
    purposes = ClaimPurpose.values if purpose is None else [purpose.value]
    with transaction.atomic():
        mine = _open_claims(workload).filter(purpose__in=purposes)
        quotas = {
            quota.pk: quota
            for quota in Quota.objects.select_for_update(no_key=True)
            .filter(pk__in=mine.values("quota"))
            .order_by("pk")
        }
        values = {"workload": workload.pk, "quotas": list(quotas), "purposes": purposes, "now": now}
        every = rows(_FREE, values)
        if not every:
            return False
        transaction.on_commit(partial(wake_waiting, workload.team_id, now=now))
        freed = [row for row in every if row[0] is not None]
        half_life = PlatformSettings.current().fair_share_half_life_hours * 3600
        overflows = {}
        for quota_id in sorted({row[0] for row in freed}):
            held = [row[1:] for row in freed if row[0] == quota_id]
            overflows[quota_id] = _give_back(quotas[quota_id], held, half_life, now)
        count_in_cohorts(overflows)
        for quota_id in overflows:
            quota = quotas[quota_id]
            mark_due(flavor_id=quota.flavor_id, capacity_type=quota.capacity_type, now=now)
    return True


def _give_back(
    quota: Quota, freed: Sequence[tuple[int, int, bool, datetime]], half_life: int, now: datetime
) -> int:
    """Lower the locked quota's counters by freed claims (units, headroom, lent, since); the change of its overflow."""
    units = sum(row[0] for row in freed if not row[2])
    headroom = quota.headroom - sum(row[1] for row in freed)
    lent = quota.lent_headroom - sum(row[0] for row in freed if row[2])
    adopted = max(0, lent - headroom)
    if adopted:
        _adopt(quota, adopted, now)
    held = [integral(row[0], (now - row[3]).total_seconds(), half_life) for row in freed]
    past = (now - (quota.decayed_at or now)).total_seconds()
    used = quota.used - units + adopted
    Quota.objects.filter(pk=quota.pk).update(
        used=used,
        grandfathered=min(quota.grandfathered, used),
        headroom=headroom,
        lent_headroom=lent - adopted,
        decayed_use=decayed(quota.decayed_use, past, half_life) + sum(held),
        decayed_at=now,
    )
    return overflow(used, quota.local) - overflow(quota.used, quota.local)


def _adopt(quota: Quota, units: int, now: datetime) -> None:
    """The headroom under lent claims goes with its endpoint: `units` of them, the oldest, count in `used` from now on.

    They are never more than the endpoint gives back. A claim that only partly finds headroom becomes two.
    """
    borrowers = Claim.objects.filter(quota=quota, lent=True).exclude(state=ClaimState.RELEASED)
    for borrower in borrowers.order_by("pk"):
        part = min(borrower.units, units)
        units -= part
        if part == borrower.units:
            Claim.objects.filter(pk=borrower.pk).update(lent=False)
        elif part:
            Claim.objects.filter(pk=borrower.pk).update(units=F("units") - part)
            _add_to_second_claim(borrower, part, now)


def _add_to_second_claim(first: Claim, units: int, now: datetime) -> None:
    second = Claim.objects.filter(workload=first.workload_id, purpose=ClaimPurpose.SURGE)
    if not second.exclude(state=ClaimState.RELEASED).update(units=F("units") + units):
        Claim.objects.create(
            workload_id=first.workload_id,
            team_id=first.team_id,
            quota_id=first.quota_id,
            purpose=ClaimPurpose.SURGE,
            units=units,
            state=first.state,
            reserved_at=now,
            activated_at=first.activated_at,
        )


def set_firm(*, workload: Workload, units: int, now: datetime) -> int:
    """An endpoint's pods need `units` of its claim: the rest of it becomes headroom, which its team's runs may borrow.

    Returns how many of them are still lent, and so must be reclaimed before they are firm. 0 for a workload without
    a claim of its own. Not for an endpoint that keeps its headroom to itself.
    """
    mine = _open_claims(workload).filter(purpose=ClaimPurpose.WORKLOAD, lent=False)
    seen = mine.first()
    if seen is None or seen.quota_id is None or seen.headroom == max(0, seen.units - max(0, units)):
        return 0
    with transaction.atomic():
        quota = Quota.objects.select_for_update(no_key=True).get(pk=seen.quota_id)
        held = mine.filter(quota=quota).first()
        if held is None:
            return 0
        wanted = max(0, held.units - max(0, units))
        least = held.headroom - (quota.headroom - quota.lent_headroom)
        headroom = max(wanted, least)
        if headroom != held.headroom:
            Claim.objects.filter(pk=held.pk).update(headroom=headroom)
            Quota.objects.filter(pk=quota.pk).update(headroom=F("headroom") + headroom - held.headroom)
            mark_due(flavor_id=quota.flavor_id, capacity_type=quota.capacity_type, now=now)
    return headroom - wanted


def resize(
    *, workload: Workload, units: int, most: Sequence[int] | None = None, lends: bool, now: datetime
) -> int:
    """Make the workload's claim one of `units`, and of `most` of its team's ceilings where that is said; returns the units
    that it holds now, 0 where it has none open.

    What comes on top is headroom where it `lends`, and what is given back is headroom first. Raises QuotaExceeded,
    with nothing changed, where the quota or a ceiling does not give as much.
    """
    with transaction.atomic():
        seen = _open_claims(workload).filter(purpose=ClaimPurpose.WORKLOAD, lent=False).first()
        if seen is None:
            return 0
        if most is not None and tuple(most) != seen.most:
            _hold_amounts(workload, seen, most, now)
        if seen.units == units or seen.quota_id is None:
            return seen.units
        quota = Quota.objects.select_for_update(no_key=True).get(pk=seen.quota_id)
        held = Claim.objects.get(pk=seen.pk)
        if units > held.units:
            _grow(quota, held, units - held.units, lends=lends)
        else:
            _shrink(quota, held, held.units - units, now)
            mark_due(flavor_id=quota.flavor_id, capacity_type=quota.capacity_type, now=now)
    return units


def _hold_amounts(workload: Workload, seen: Claim, most: Sequence[int], now: datetime) -> None:
    """Make its part of the team's ceilings this much; QuotaExceeded where more of something is wanted than fits."""
    hold_team(workload.team)
    held = Claim.objects.get(pk=seen.pk)
    added = [new - old for new, old in zip(most, held.most, strict=True)]
    team = workload.team
    together = [amount + more for amount, more in zip(held_of([team])[team.pk], added, strict=True)]
    check_amounts(
        team.slug, ceilings_of([team])[team.pk][: len(added)], together, [max(0, more) for more in added]
    )
    cpu, memory, storage, pods = most
    Claim.objects.filter(pk=held.pk).update(cpu=cpu, memory=memory, storage=storage, pods=pods)
    if any(more < 0 for more in added):
        transaction.on_commit(partial(wake_waiting, team.pk, now=now))


def _grow(quota: Quota, held: Claim, units: int, *, lends: bool) -> None:
    spare = units if lends else 0
    if quota.used + units > quota.ceiling:
        raise QuotaExceeded(
            f"{units} more do not fit into {quota}: {quota.used} of {quota.ceiling} are in use."
        )
    change = overflow(quota.used + units, quota.local) - overflow(quota.used, quota.local)
    if not count_in_cohorts({quota.pk: change}):
        raise QuotaExceeded(f"{units} more do not fit into {quota}: the cohort has nothing left to lend.")
    Quota.objects.filter(pk=quota.pk).update(used=F("used") + units, headroom=F("headroom") + spare)
    Claim.objects.filter(pk=held.pk).update(units=F("units") + units, headroom=F("headroom") + spare)


def _shrink(quota: Quota, held: Claim, units: int, now: datetime) -> None:
    spare = min(units, held.headroom)
    Claim.objects.filter(pk=held.pk).update(units=F("units") - units, headroom=F("headroom") - spare)
    half_life = PlatformSettings.current().fair_share_half_life_hours * 3600
    count_in_cohorts({quota.pk: _give_back(quota, [(units, spare, False, held.reserved_at)], half_life, now)})


def _open_claims(workload: Workload) -> QuerySet[Claim]:
    return Claim.objects.filter(workload=workload).exclude(state=ClaimState.RELEASED)


def _check(wanted: Wanted) -> None:
    least = 0 if wanted.quota_id is None else 1
    check_whole("units", wanted.units, least=least, most=NOMINAL_MAX if least else 0)
    check_whole("headroom", wanted.headroom, least=0, most=NOMINAL_MAX)
    if wanted.headroom > (0 if wanted.lent else wanted.units):
        raise Invalid.of_field(
            "headroom", "Headroom is a part of the units that are not lent.", code="out_of_range"
        )


def _exceeded(wanted: Iterable[Wanted]) -> QuotaExceeded:
    asked = list(wanted)
    names = ", ".join(
        str(quota) for quota in Quota.objects.filter(pk__in={claim.quota_id for claim in asked})
    )
    return QuotaExceeded(f"{sum(claim.units for claim in asked)} do not fit into {names}.")
