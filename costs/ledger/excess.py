"""What work cost beyond what it was promised: the platform's, not the team's.

A promise that is over leaves a limit. Whatever is posted about its time later (a dispute, another end, a credit, what had
come up and was not posted) is followed, in the same transaction, by what that means for the excess: the posting that stands
is reversed, and what is left of it is posted anew. So a team pays the less of what it was promised and of what it is charged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from django.db import connection
from django.db.models import Q

from costs.ledger.accounts import ADJUSTMENT, team_account
from costs.ledger.entries import project_of
from costs.ledger.postings import opposite
from costs.models import (
    BudgetReservation,
    ChargeLimit,
    LedgerEntry,
    PricedCard,
    UsageInterval,
    WorkloadCharge,
)
from costs.pricing import accrued, priced_segments
from costs.queries import spans_of

TOOK_LONGER = "Stopping took longer than its budget had reserved for."
COUNTED_AGAIN = "What it cost beyond its promise is another amount by now."
FOREVER: Final = datetime(9999, 1, 1, tzinfo=UTC)

# In one order: two transactions that took them in turns would wait for each other. A row is locked though nothing is
# updated, and made where there is none.
_HOLD = """
INSERT INTO costs_workloadcharge AS kept (workload_id, posted_micro_usd)
SELECT DISTINCT wanted, 0 FROM unnest(%s::bigint[]) AS wanted ORDER BY wanted
ON CONFLICT (workload_id) DO UPDATE SET posted_micro_usd = kept.posted_micro_usd WHERE false
"""
# A line's money is spread evenly over its time, as in reports. An excess has no price.
_CHARGED = """
SELECT coalesce(sum(
    costs_until(e.started_at, e.ended_at, e.amount_micro_usd, %(until)s)
    - costs_until(e.started_at, e.ended_at, e.amount_micro_usd, coalesce(%(since)s, '-infinity'::timestamptz))
), 0)
FROM costs_ledgerentry AS e LEFT JOIN costs_usageinterval AS u ON u.pod_uid = e.pod_uid
WHERE e.workload_id = %(workload)s AND e.account LIKE 'team:%%' AND e.price_id IS NOT NULL
    AND e.started_at < %(until)s AND (%(since)s::timestamptz IS NULL OR e.ended_at > %(since)s)
    AND (%(pods_from)s::timestamptz IS NULL OR coalesce(u.started_at, e.started_at) >= %(pods_from)s)
    AND (%(pods_until)s::timestamptz IS NULL OR coalesce(u.started_at, e.started_at) < %(pods_until)s)
"""


def hold_charges(workload_ids: Collection[int]) -> None:
    """Until this transaction ends nobody else posts anything about these workloads, or limits it. After the cards that it
    posts of, and before any line.
    """
    if workload_ids:
        with connection.cursor() as cursor:
            cursor.execute(_HOLD, [list(workload_ids)])


def charged(limit: ChargeLimit) -> int:
    """Micro-USD that the ledger charges the team for what the limit is about, whatever the platform has taken over."""
    values = {
        "workload": limit.workload_id,
        "since": limit.counts_from,
        "until": limit.counts_until,
        "pods_from": limit.pods_from,
        "pods_until": limit.pods_until,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CHARGED, values)
        (amount,) = cursor.fetchone()
    return int(amount)


def limit_charges(limits: Sequence[ChargeLimit], *, now: datetime) -> None:
    """From now on teams pay no more than that; the charges of the workloads are held."""
    _keep(ChargeLimit.objects.bulk_create(limits), now)


def keep_within_limits(workload_ids: Collection[int], *, since: datetime, now: datetime) -> None:
    """Make the excess of these workloads, whose charges are held, follow lines for a time from `since` on, in the
    transaction that has posted them; and what is known of their present promises as used before.
    """
    limits = ChargeLimit.objects.filter(workload__in=workload_ids, counts_until__gt=since)
    _keep(list(limits.select_related("workload__team", "workload__flavor").order_by("pk")), now)
    begun = Q(counts_from__gt=since) | Q(pods_from__gt=since)
    for row in BudgetReservation.objects.filter(begun, workload__in=workload_ids, closed_at__isnull=True):
        base = _before(row)
        if base != row.base_micro_usd:
            BudgetReservation.objects.filter(pk=row.pk).update(base_micro_usd=base)


def _before(row: BudgetReservation) -> int:
    """Micro-USD that the workload of an open promise has cost, and that are not of this promise."""
    posted = WorkloadCharge.objects.values_list("posted_micro_usd", flat=True).get(pk=row.workload_id)
    before = posted - charged(
        ChargeLimit(
            workload_id=row.workload_id,
            counts_from=row.counts_from,
            counts_until=FOREVER,
            pods_from=row.pods_from,
        )
    )
    if row.counts_from is None:
        return before
    unsettled = UsageInterval.objects.filter(UsageInterval.unsettled(), workload=row.workload_id)
    for usage in unsettled.filter(settled_until__lt=row.counts_from):
        priced = PricedCard.objects.filter(card=usage.card, capacity_type=usage.capacity_type).first()
        end = min(usage.ended_at or row.counts_from, row.counts_from)
        before += accrued(list(priced_segments(usage.settled_until, end, spans_of(priced))), usage.cards)
    return before


def _keep(limits: Sequence[ChargeLimit], now: datetime) -> None:
    entries: list[LedgerEntry] = []
    changed = []
    for limit in limits:
        excess = max(0, charged(limit) - limit.most_micro_usd)
        if excess == limit.excess_micro_usd:
            continue
        entries += _taken_back(limit, now)
        limit.excess_micro_usd, limit.transaction_id = excess, uuid4() if excess else None
        entries += _taken_over(limit, now)
        changed.append(limit)
    if changed:
        LedgerEntry.objects.bulk_create(entries)
        ChargeLimit.objects.bulk_update(changed, ["excess_micro_usd", "transaction_id"])


def _taken_back(limit: ChargeLimit, now: datetime) -> Iterator[LedgerEntry]:
    if limit.transaction_id is None:
        return
    transaction_id = uuid4()
    for row in LedgerEntry.objects.filter(transaction_id=limit.transaction_id).order_by("id"):
        yield opposite(row, transaction_id, reason=COUNTED_AGAIN, now=now)


def _taken_over(limit: ChargeLimit, now: datetime) -> Iterator[LedgerEntry]:
    """It lies in the last second of what was promised."""
    if limit.transaction_id is None:
        return
    workload, moment = limit.workload, limit.ended_at.replace(microsecond=0) - timedelta(seconds=1)
    sides = (
        (team_account(workload.team.slug), -limit.excess_micro_usd),
        (ADJUSTMENT, limit.excess_micro_usd),
    )
    for account, amount in sides:
        yield LedgerEntry(
            transaction_id=limit.transaction_id,
            account=account,
            team=workload.team,
            workload=workload,
            flavor_name=workload.flavor.name if workload.flavor else "",
            started_at=moment,
            ended_at=moment,
            units=workload.units,
            user_id=workload.owner_id,
            project=project_of(workload),
            amount_micro_usd=amount,
            reason=TOOK_LONGER,
            posted_at=now,
        )
