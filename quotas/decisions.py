"""Receipts: a verdict is kept with what it was decided on, and can be decided again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from foundation import leases
from foundation.ids import new_public_id
from policy.judge import POLICY, REPLAYED, judge
from policy.pool_snapshot import PoolSnapshot, TeamFacts
from policy.snapshot_json import digest, dump, dump_verdict, load
from policy.verdicts import Verdict
from quotas.models import Decision
from workloads.models import Workload

ANOTHER_TEAM = "another team"


@dataclass(frozen=True)
class Receipt:
    """One verdict to keep; a workload that asks for no unit is judged on no snapshot."""

    workload: Workload
    verdict: Verdict


@dataclass(frozen=True)
class Replay:
    """The current policy's verdict on the stored inputs, and the stored verdict."""

    stored: Verdict
    verdict: Verdict | None
    same: bool
    unknown_because: str = ""

    @property
    def decided(self) -> Verdict | None:
        """The current verdict; None if the inputs could not be judged again."""
        return self.verdict


_RECORD = """
WITH kept AS (
    INSERT INTO quotas_supplyrecord (digest, body, created_at)
    SELECT %(digest)s, %(body)s, %(now)s WHERE %(digest)s::text IS NOT NULL
    ON CONFLICT DO NOTHING
)
INSERT INTO quotas_decision
    (public_id, workload_id, at, policy, verdict, reason, rule, outcome, supply_id, revision)
SELECT public_id, workload_id, %(now)s, %(policy)s, verdict, reason, rule, outcome, %(digest)s, %(revision)s
FROM unnest(%(ids)s::uuid[], %(workloads)s::bigint[], %(verdicts)s::text[], %(reasons)s::text[], %(rules)s::text[],
            %(outcomes)s::jsonb[])
    AS r (public_id, workload_id, verdict, reason, rule, outcome)
"""


def record(*, receipts: Iterable[Receipt], snapshot: PoolSnapshot | None, now: datetime) -> None:
    """Keep the verdicts and, once for all of them, the snapshot that they were decided on; one statement."""
    kept = list(receipts)
    if not kept:
        return
    body = dump(snapshot) if snapshot is not None else b""
    values: dict[str, Any] = {
        "digest": digest(body) if snapshot is not None else None,
        "body": zlib.compress(body, 1),
        "now": now,
        "policy": POLICY,
        "revision": snapshot.revision if snapshot is not None else 0,
        "ids": [new_public_id() for _ in kept],
        "workloads": [receipt.workload.pk for receipt in kept],
        "verdicts": [receipt.verdict.outcome.value for receipt in kept],
        "reasons": [receipt.verdict.reason.value for receipt in kept],
        "rules": [receipt.verdict.rule for receipt in kept],
        "outcomes": [json.dumps(dump_verdict(receipt.verdict)) for receipt in kept],
    }
    with connection.cursor() as cursor:
        cursor.execute(_RECORD, values)


def replay(decision: Decision) -> Replay:
    """Judge the stored inputs again; `same` when every field of the verdict is what was stored; of an older policy all but the
    message and the evidence, which it counted otherwise.
    """
    stored = decision.decided
    if decision.policy not in REPLAYED:
        because = f"It was decided by {decision.policy}; this is {POLICY}."
        return Replay(stored, None, same=False, unknown_because=because)
    if decision.supply is None:
        because = "Its inputs are past their retention." if decision.rule != "no-gpu" else ""
        return Replay(stored, stored if not because else None, same=not because, unknown_because=because)
    snapshot = load(zlib.decompress(bytes(decision.supply.body)))
    verdict = judge(snapshot, str(decision.workload.public_id))
    alike = verdict
    if decision.policy != POLICY:
        alike = replace(verdict, evidence=stored.evidence, message=stored.message)
    return Replay(stored, verdict, same=alike == stored)


def readable_snapshot(decision: Decision, *, team: str, named: frozenset[str]) -> PoolSnapshot | None:
    """The stored inputs for a member of `team`: workloads and owners of other teams have no names, and the teams have
    none either unless they are among `named`.
    """
    if decision.supply is None:
        return None
    snapshot = load(zlib.decompress(bytes(decision.supply.body)))
    known = named | {team}
    hidden = sorted({facts.slug for facts in snapshot.teams} - known)
    name_of = {slug: f"{ANOTHER_TEAM} {number}" for number, slug in enumerate(hidden, 1)}

    def called(slug: str) -> str:
        return slug if slug in known else name_of.get(slug, ANOTHER_TEAM)

    def account(name: str) -> str:
        kind, _, slug = name.partition(":")
        return f"team:{called(slug)}" if kind == "team" else name

    return replace(
        snapshot,
        teams=tuple(
            facts if facts.slug in known else _anonymous(facts, called(facts.slug), account(facts.account))
            for facts in snapshot.teams
        ),
        accounts=tuple(replace(entry, name=account(entry.name)) for entry in snapshot.accounts),
        holders=tuple(
            holder if holder.team == team else replace(holder, id="", owner="", team=called(holder.team))
            for holder in snapshot.holders
        ),
        waiters=tuple(
            waiter
            if waiter.team == team
            else replace(waiter, id="", owner="", team=called(waiter.team), sequence=place)
            for place, waiter in enumerate(snapshot.waiters)
        ),
        beyond=tuple(replace(beyond, team=called(beyond.team)) for beyond in snapshot.beyond),
    )


def _anonymous(facts: TeamFacts, slug: str, account: str) -> TeamFacts:
    """The facts of another team that the verdict depends on, without what only its members may see."""
    return TeamFacts(
        slug=slug,
        account=account,
        use=facts.use,
        weight=facts.weight,
        stopped="stopped" if facts.stopped else "",
        lendable=facts.lendable,
    )


_STARTED = """
WITH scored AS (
    UPDATE quotas_startestimate AS e SET started_at = %(now)s, hit = %(now)s <= e.p90
    FROM workloads_workload AS w
    WHERE w.id = ANY(%(workloads)s) AND e.workload_id = w.id AND e.queued_at = w.queued_at AND e.started_at IS NULL
)
UPDATE quotas_pool SET revision = revision + 1, passed_at = %(now)s WHERE id = %(pool)s
"""


def started(*, pool_id: int, workloads: Iterable[Workload], now: datetime) -> None:
    """These were admitted now: the pool has a new revision, and their open estimates are scored."""
    values: dict[str, Any] = {
        "now": now,
        "pool": pool_id,
        "workloads": [workload.pk for workload in workloads],
    }
    with connection.cursor() as cursor:
        cursor.execute(_STARTED, values)


EXPIRE_BATCH = 500
EXPIRE_BATCHES_MAX = 20
"""A run of the job forgets at most so many batches, so that a long backlog holds nothing up."""
# The bodies stay where they are: Django would load each to take it out of its decisions.
_FORGET_DECISIONS = """
DELETE FROM quotas_decision WHERE id IN (
    SELECT id FROM quotas_decision WHERE at < %(before)s ORDER BY at LIMIT %(batch)s
)
"""
_FORGET_SUPPLIES = """
WITH old AS (
    SELECT digest FROM quotas_supplyrecord WHERE created_at < %(before)s ORDER BY created_at LIMIT %(batch)s
), unlinked AS (
    UPDATE quotas_decision SET supply_id = NULL WHERE supply_id IN (SELECT digest FROM old)
)
DELETE FROM quotas_supplyrecord WHERE digest IN (SELECT digest FROM old)
"""


def expire(*, now: datetime, keep: timedelta) -> int:
    """Forget inputs and receipts that are older than `keep`, in batches; how many inputs went."""
    before = now - keep
    _in_batches(_FORGET_DECISIONS, before)
    return _in_batches(_FORGET_SUPPLIES, before)


def _in_batches(statement: str, before: datetime) -> int:
    gone = 0
    for _ in range(EXPIRE_BATCHES_MAX):
        with transaction.atomic(), connection.cursor() as cursor:
            leases.check()
            cursor.execute(statement, {"before": before, "batch": EXPIRE_BATCH})
            gone += cursor.rowcount
            if cursor.rowcount < EXPIRE_BATCH:
                break
    return gone
