"""Admission of what asks for no GPU: it has no pool, and waits only for its team's ceilings.

All that wait of a team are judged together, in their order, by one transaction at a time.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from django.db import connection, transaction
from django.db.models import Q

from controller import wakeups
from controller.admission.moves import NO_GPU, write_verdicts
from policy.judge import plan
from policy.verdicts import Verdict
from quotas import cpu_admission, decisions
from quotas.ceilings import lock_teams
from quotas.services import Wanted, claim_many
from quotas.waiters import waiter_of
from workloads.bulk.transitions import lock_queued
from workloads.locks import reread
from workloads.models import Workload
from workloads.states import Desired, Phase

MUTEX = 20_408
"""First key of the advisory locks of teams; the second is the team's own."""
JUDGED_MOST = 200
"""Waiters of a team in one pass; those behind them have their own."""


def admit(workload: Workload, *, now: datetime) -> Verdict | None:
    """Judge what waits of the workload's team without a GPU; the verdict on this one, None if it waits no longer.

    In the caller's transaction. Others that are admitted are woken.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [MUTEX, workload.team_id])
    reread(workload, hold=True)
    if not workload.waits:
        return None
    rows = [workload, *lock_queued(workload_ids=_others(workload, now))]
    lock_teams([workload.pk])
    snapshot = cpu_admission.team_snapshot(
        team=workload.team, waiters=[waiter_of(row) for row in rows], now=now
    )
    decided = plan(snapshot)
    verdicts = {row.pk: _told(decided.verdicts[str(row.public_id)]) for row in rows}
    starts = [row for row in rows if verdicts[row.pk].admitted]
    claim_many(wanted=[Wanted(row.pk, None, 0) for row in starts], now=now)
    before = {row.pk: row.reason for row in rows}
    moved = write_verdicts(rows, verdicts, focus=workload, now=now)
    # Other figures in the same sentence are no new decision.
    anew = (row for row in moved if verdicts[row.pk].reason != before[row.pk])
    receipts = [decisions.Receipt(row, verdicts[row.pk]) for row in anew]
    free = [receipt for receipt in receipts if receipt.verdict.admitted]
    decisions.record(receipts=free, snapshot=None, now=now)
    decisions.record(
        receipts=[receipt for receipt in receipts if receipt not in free], snapshot=snapshot, now=now
    )
    for row in starts:
        if row is not workload:
            transaction.on_commit(partial(wakeups.send, row.public_id))
    return verdicts[workload.pk]


def _others(workload: Workload, now: datetime) -> list[int]:
    """Keys of the team's others that wait and may start, first to last."""
    waiting = Workload.objects.filter(
        Q(rests_until=None) | Q(rests_until__lte=now),
        team=workload.team_id,
        flavor=None,
        phase=Phase.QUEUED.value,
        desired=Desired.RUN.value,
    ).exclude(pk=workload.pk)
    return list(waiting.order_by("queued_at", "pk").values_list("pk", flat=True)[:JUDGED_MOST])


def _told(verdict: Verdict) -> Verdict:
    return NO_GPU if verdict.admitted else verdict
