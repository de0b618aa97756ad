"""Receipts: a verdict is kept with what it was decided on, and can be decided again."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Case, When

from quotas.models import Decision, StartEstimate, SupplyRecord
from quotas.policy import POLICY, judge
from quotas.supply import Supply
from quotas.supply_json import digest, dump, dump_verdict, load, load_verdict
from quotas.verdicts import Verdict
from workloads.models import Workload

ANOTHER_TEAM = "another team"


@dataclass(frozen=True)
class Receipt:
    """One verdict to keep; a workload that asks for no unit is judged on no supply."""

    workload: Workload
    verdict: Verdict


@dataclass(frozen=True)
class Replay:
    """What the policy answers to the stored inputs now, beside what was stored."""

    stored: Verdict
    verdict: Verdict | None
    same: bool
    unknown_because: str = ""


def record(*, receipts: Iterable[Receipt], supply: Supply | None, now: datetime) -> None:
    """Keep the verdicts and, once for all of them, the supply that they were decided on."""
    kept = list(receipts)
    if not kept:
        return
    digest_of = None
    if supply is not None:
        body = dump(supply)
        digest_of = digest(body)
        SupplyRecord.objects.bulk_create(
            [SupplyRecord(digest=digest_of, body=zlib.compress(body, 1), created_at=now)],
            ignore_conflicts=True,
        )
    Decision.objects.bulk_create(
        Decision(
            workload=each.workload,
            at=now,
            policy=POLICY,
            verdict=each.verdict.outcome.value,
            reason=each.verdict.reason.value,
            rule=each.verdict.rule,
            outcome=dump_verdict(each.verdict),
            supply_id=digest_of,
            revision=supply.revision if supply else 0,
        )
        for each in kept
    )


def replay(decision: Decision) -> Replay:
    """Judge the stored inputs again; `same` when every field of the verdict is what was stored."""
    stored = load_verdict(decision.outcome)
    if decision.policy != POLICY:
        because = f"It was decided by {decision.policy}; this is {POLICY}."
        return Replay(stored, None, same=False, unknown_because=because)
    if decision.supply is None:
        because = "Its inputs are past their retention." if decision.rule != "no-gpu" else ""
        return Replay(stored, stored if not because else None, same=not because, unknown_because=because)
    supply = load(zlib.decompress(bytes(decision.supply.body)))
    verdict = judge(supply, str(decision.workload.public_id))
    return Replay(stored, verdict, same=verdict == stored)


def readable_supply(decision: Decision, *, team: str, named: frozenset[str]) -> Supply | None:
    """The stored inputs for somebody of `team`: workloads and owners of other teams have no names, nor have the
    teams themselves unless they are among `named`.
    """
    if decision.supply is None:
        return None
    supply = load(zlib.decompress(bytes(decision.supply.body)))
    known = named | {team}
    hidden = sorted({each.slug for each in supply.teams} - known)
    name_of = {slug: f"{ANOTHER_TEAM} {number}" for number, slug in enumerate(hidden, 1)}

    def called(slug: str) -> str:
        return slug if slug in known else name_of.get(slug, ANOTHER_TEAM)

    def account(name: str) -> str:
        kind, _, slug = name.partition(":")
        return f"team:{called(slug)}" if kind == "team" else name

    return replace(
        supply,
        teams=tuple(
            replace(each, slug=called(each.slug), account=account(each.account)) for each in supply.teams
        ),
        accounts=tuple(replace(each, name=account(each.name)) for each in supply.accounts),
        holders=tuple(
            each if each.team == team else replace(each, id="", owner="", team=called(each.team))
            for each in supply.holders
        ),
        waiters=tuple(
            each if each.team == team else replace(each, id="", owner="", team=called(each.team))
            for each in supply.waiters
        ),
        beyond=tuple(replace(each, team=called(each.team)) for each in supply.beyond),
    )


def started(*, workloads: Iterable[Workload], now: datetime) -> None:
    """These were admitted now: their open estimates are scored."""
    rows = StartEstimate.objects.filter(workload__in=[each.pk for each in workloads], started_at__isnull=True)
    hit = Case(When(p90__isnull=True, then=None), When(p90__gte=now, then=True), default=False)
    rows.update(started_at=now, hit=hit)


def expire(*, now: datetime, keep: timedelta) -> int:
    """Forget inputs and receipts that are older than `keep`; how many inputs went."""
    Decision.objects.filter(at__lt=now - keep).delete()
    gone, _ = SupplyRecord.objects.filter(created_at__lt=now - keep).delete()
    return gone
