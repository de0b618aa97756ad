"""What work cost that was lost: every attempt that ended without its work, and the team's credit where the platform did it.

A preempted run, one whose quota was cut and one whose node was lost or drained had no part in it. A spot reclaim credits
nothing: its price is low because of that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final
from uuid import uuid4

from django.db import transaction

from costs.ledger.accounts import LOST, lane_account, team_account
from costs.ledger.excess import hold_charges, keep_within_limits
from costs.ledger.postings import COPIED, lines_of_pods, opposite, postings_of
from costs.models import LedgerEntry, LostWork, PricedCard, UsageInterval
from costs.pricing import PriceSpan, Segment, exact_cost, whole
from costs.queries import spans_of
from foundation import leases
from foundation.models import PlatformSettings
from workloads.models import Attempt, PodRecord
from workloads.states import Reason

CREDITED: Final = frozenset({Reason.PREEMPTED, Reason.PREEMPTING, Reason.QUOTA_REDUCED, Reason.NODE_LOST})
BATCH_MAX: Final = 200
CHANGED = "What was lost is another time or amount by now."
REASONS: Final = {
    Reason.PREEMPTED: "The run had to leave so that another could start.",
    Reason.PREEMPTING: "The run had to leave so that another could start.",
    Reason.QUOTA_REDUCED: "The run had to leave as the quota was cut.",
    Reason.NODE_LOST: "The node was lost or taken away.",
}


def note(attempt: Attempt) -> None:
    """Remember an attempt that has ended and lost work; call in the transaction that ends it. Once.

    What is credited of it at the most is as the platform's settings say now, whatever they say later.
    """
    if attempt.lost_seconds > 0 and attempt.workload.units > 0:
        values = {
            "workload_id": attempt.workload_id,
            "cause": attempt.reason,
            "credit_seconds": _most_of(attempt.reason),
        }
        LostWork.objects.get_or_create(attempt=attempt, defaults=values)


def _most_of(cause: str) -> int:
    """Seconds that are credited of what was lost so, at the most."""
    return PlatformSettings.current().lost_work_credit_seconds if cause in CREDITED else 0


def look_again(*, workload_ids: Collection[int]) -> None:
    """What these workloads lost may cost something else by now; call in the transaction that changes their lines."""
    LostWork.objects.filter(workload_id__in=workload_ids, due=False).update(due=True)


def credit_due(*, now: datetime) -> int:
    """Put a price on what was lost, and credit what the platform did; returns how many attempts were looked at.

    What has pods that have not ended waits until they have.
    """
    over = LostWork.objects.filter(due=True).order_by("pk")
    done = 0
    last = 0
    while keys := list(over.filter(pk__gt=last).values_list("pk", flat=True)[:BATCH_MAX]):
        done += sum(_credit(key, now=now) for key in keys)
        last = keys[-1]
    return done


@dataclass(frozen=True)
class _Part:
    """Work that the team has paid for at one price on one day."""

    segment: Segment
    first: LedgerEntry
    exact: Fraction


def _credit(key: int, *, now: datetime) -> bool:
    with transaction.atomic():
        leases.check()
        found = LostWork.objects.select_related("attempt").get(pk=key)
        uids = _pods_of(found.attempt)
        if not uids and found.postings:
            # The rows of its pods are past their retention: what was credited stays.
            LostWork.objects.filter(pk=key).update(due=False)
            return False
        usages = {row.pod_uid: row for row in UsageInterval.objects.filter(pod_uid__in=uids)}
        if any(row.ended_at is None for row in usages.values()):
            return False
        # As everywhere, the cards before the rows that hang on them.
        lanes = {(row.card, row.capacity_type) for row in usages.values()}
        spans = {span.price_id: span for lane in sorted(lanes) for span in _locked_spans(*lane)}
        hold_charges({found.workload_id})
        work = LostWork.objects.select_for_update(of=("self",)).select_related("workload__team").get(pk=key)
        parts = list(_paid_in(found.attempt, usages, spans, found.attempt.lost_seconds))
        if work.credit_seconds is None:
            # A process of the release before has noted it.
            work.credit_seconds = _most_of(work.cause)
        seconds = min(found.attempt.lost_seconds, work.credit_seconds)
        credited = list(_paid_in(found.attempt, usages, spans, seconds))
        work.lost_micro_usd = sum(whole(each.exact)[0] for each in _summed(parts))
        _post(work, _summed(credited), now)
        work.due = False
        work.save()
    return True


def _pods_of(attempt: Attempt) -> list[str]:
    pods = PodRecord.objects.filter(workload=attempt.workload_id, attempt=attempt.number, units__gt=0)
    return list(pods.values_list("uid", flat=True))


def _locked_spans(card: str, capacity_type: str) -> list[PriceSpan]:
    return spans_of(
        PricedCard.objects.select_for_update().filter(card=card, capacity_type=capacity_type).first()
    )


def _paid_in(
    attempt: Attempt, usages: dict[str, UsageInterval], spans: dict[int, PriceSpan], seconds: int
) -> Iterator[_Part]:
    """What the team pays for the attempt's last so many seconds, as its lines stand."""
    if attempt.ended_at is None or not usages:
        return
    until = attempt.ended_at.replace(microsecond=0)
    since = until - timedelta(seconds=seconds)
    for posting in postings_of(lines_of_pods(usages)):
        if posting.disputed or posting.team_account is None or posting.first.price_id is None:
            continue
        start = max(since, posting.first.started_at)
        end = min(until, posting.platform_from or posting.stands_until, posting.stands_until)
        if start < end:
            segment = Segment(start, end, spans[posting.first.price_id])
            cards = usages[posting.first.pod_uid].cards
            yield _Part(segment, posting.first, exact_cost(segment, cards))


def _summed(parts: Iterable[_Part]) -> list[_Part]:
    """By price and day, as lines lie within one day."""
    sums: dict[tuple[int, object], _Part] = {}
    for part in sorted(parts, key=lambda each: each.segment.start):
        at = (part.segment.span.price_id, part.segment.start.astimezone(UTC).date())
        so_far = sums.get(at)
        if so_far is None:
            sums[at] = part
            continue
        end = max(so_far.segment.end, part.segment.end)
        joined = Segment(so_far.segment.start, end, so_far.segment.span)
        sums[at] = _Part(joined, so_far.first, so_far.exact + part.exact)
    return list(sums.values())


def _post(work: LostWork, parts: Sequence[_Part], now: datetime) -> None:
    """Lines of the credit, where those that stand say something else; these are reversed."""
    wanted = [
        (each.segment.start, each.segment.end, each.segment.span.price_id, whole(each.exact)[0])
        for each in parts
    ]
    standing = list(LedgerEntry.objects.filter(transaction_id__in=work.postings).order_by("id"))
    lost = [row for row in standing if row.account.startswith(LOST)]
    if [(row.started_at, row.ended_at, row.price_id, row.amount_micro_usd) for row in lost] == wanted:
        return
    renamed = {row.transaction_id: uuid4() for row in standing}
    entries = [opposite(row, renamed[row.transaction_id], reason=CHANGED, now=now) for row in standing]
    prices = {row.pk: row for row in PricedCard.objects.filter(prices__in=[each[2] for each in wanted])}
    of_price = {price.pk: priced for priced in prices.values() for price in priced.prices.all()}
    work.postings = []
    for part, (start, end, price, amount) in zip(parts, wanted, strict=True):
        transaction_id = uuid4()
        work.postings.append(str(transaction_id))
        priced = of_price[price]
        copied = {name: getattr(part.first, name) for name in COPIED if name not in {"pod_uid", "node_name"}}
        for account, sign in (
            (lane_account(LOST, priced.card, priced.capacity_type), 1),
            (team_account(work.workload.team.slug), -1),
        ):
            entries.append(
                LedgerEntry(
                    **{**copied, "units": 0, "phase": ""},
                    transaction_id=transaction_id,
                    account=account,
                    started_at=start,
                    ended_at=end,
                    amount_micro_usd=sign * amount,
                    reason=f"{REASONS[Reason(work.cause)]} Its work since its last checkpoint is credited.",
                    posted_at=now,
                )
            )
    work.credited_micro_usd = sum(each[3] for each in wanted)
    LedgerEntry.objects.bulk_create(entries)
    since = min(row.started_at for row in entries)
    keep_within_limits({work.workload_id}, since=since, now=now)
