"""The only writer of usage and of the ledger's lines of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce

from costs.ledger import lost_work
from costs.ledger.corrections import Corrections
from costs.ledger.entries import moments_of, posting
from costs.ledger.excess import hold_charges, keep_within_limits
from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from costs.pricing import PriceSpan, by_day, cut, lines, priced_segments
from costs.queries import spans_of
from foundation import leases
from foundation.crashpoints import crash_point
from workloads.models import PodRecord

SETTLE_OPEN_EVERY = timedelta(hours=1)
SETTLE_BATCH_MAX = 500


def record_usage(pod: PodRecord, *, now: datetime) -> UsageInterval | None:
    """The pod's interval, as its row says now; None while it has used nothing."""
    return record_usages([pod], now=now).get(pod.uid)


def record_usages(pods: Sequence[PodRecord], *, now: datetime) -> dict[str, UsageInterval]:
    """Open, close or correct the pods' intervals so that they say what the rows say; by UID. Closing also settles.

    Call with rows that are locked, in the transaction that writes them: then every interval that is closed has ended,
    whatever ends this process. What was settled beyond an end that was not known yet is taken back, and a pod that was
    taken for ended and is there is charged on, without a gap.
    """
    held = {pod.uid: pod for pod in pods if pod.units > 0 and pod.scheduled_at is not None}
    if not held:
        return {}
    with transaction.atomic():
        intervals = _intervals(held)
        made = [
            usage for pod in pods if pod.uid not in intervals and (usage := _interval_of(pod)) is not None
        ]
        if made:
            UsageInterval.objects.bulk_create(made, ignore_conflicts=True)
            intervals |= _intervals([usage.pod_uid for usage in made])
        wrong: dict[tuple[str, str], list[UsageInterval]] = {}
        for usage in intervals.values():
            if (usage.ended_at, usage.evidenced_until) != _end_of(held[usage.pod_uid], usage):
                wrong.setdefault((usage.card, usage.capacity_type), []).append(usage)
        if wrong:
            intervals |= _correct_all(wrong, held, now)
    return intervals


def _end_of(pod: PodRecord, usage: UsageInterval) -> tuple[datetime | None, datetime | None]:
    """When the pod's interval ends, and until when somebody saw it where that is earlier; in whole seconds."""
    if pod.ended_at is None:
        return None, None
    end = max(pod.ended_at.replace(microsecond=0), usage.started_at)
    seen = pod.certain_until
    if seen is None or seen.replace(microsecond=0) >= end:
        return end, None
    return end, max(seen.replace(microsecond=0), usage.started_at)


def _intervals(uids: Collection[str]) -> dict[str, UsageInterval]:
    rows = UsageInterval.objects.select_related("team", "workload").filter(pod_uid__in=list(uids))
    return {usage.pod_uid: usage for usage in rows}


def _interval_of(pod: PodRecord) -> UsageInterval | None:
    """A new one; None of a pod that holds no GPU of a node."""
    workload, flavor = pod.workload, pod.workload.flavor
    if flavor is None or pod.units == 0 or pod.scheduled_at is None:
        return None
    start = pod.scheduled_at.replace(microsecond=0)
    return UsageInterval(
        pod_uid=pod.uid,
        workload=workload,
        team_id=workload.team_id,
        node_name=pod.node_name,
        flavor_name=flavor.name,
        card=flavor.card,
        capacity_type=workload.capacity_type,
        units=pod.units,
        fraction_numerator=flavor.fraction_numerator,
        fraction_denominator=flavor.fraction_denominator,
        started_at=start,
        settled_until=start,
    )


def _correct_all(
    wrong: Mapping[tuple[str, str], Sequence[UsageInterval]], pods: Mapping[str, PodRecord], now: datetime
) -> dict[str, UsageInterval]:
    """Give intervals, by their cards, their ends, and the ledger what that means."""
    # All cards in one order, then their intervals, then what is charged: two transactions that took them in turns would
    # wait for each other.
    cards = {card: _lock_card(*card) for card in sorted(wrong)}
    rows = _locked_intervals([usage.pk for usages in wrong.values() for usage in usages])
    about = {row.workload_id for row in rows}
    hold_charges(about)
    since = min(min(row.settled_until, _end_of(pods[row.pod_uid], row)[0] or now) for row in rows)
    for card, priced in cards.items():
        _correct(priced, [row for row in rows if (row.card, row.capacity_type) == card], pods, now)
    keep_within_limits(about, since=since, now=now)
    lost_work.look_again(workload_ids=about)
    return {row.pod_uid: row for row in rows}


def _correct(
    priced: PricedCard | None, rows: Sequence[UsageInterval], pods: Mapping[str, PodRecord], now: datetime
) -> None:
    """The same of one card, which is locked as its intervals are."""
    spans = spans_of(priced)
    entries: list[LedgerEntry] = []
    for row in rows:
        pod = pods[row.pod_uid]
        end, evidenced_until = _end_of(pod, row)
        if priced is not None and _may_be_posted_otherwise(row, end, evidenced_until):
            Corrections(row, priced, spans, now).move_end(end, evidenced_until)
        row.ended_at, row.evidenced_until, row.sealed = end, evidenced_until, None
        if end is not None:
            row.settled_until = min(end, row.settled_until)
            if priced is not None:
                entries += _post(row, priced, spans, pod, now)
    _write(entries, rows, priced)


def _may_be_posted_otherwise(
    row: UsageInterval, end: datetime | None, evidenced_until: datetime | None
) -> bool:
    """Whether the ledger may hold something that says another end. Most pods end once, after all that is posted."""
    if row.ended_at is not None:
        return True
    return any(moment is not None and moment < row.settled_until for moment in (end, evidenced_until))


def _lock_card(card: str, capacity_type: str) -> PricedCard | None:
    return PricedCard.objects.select_for_update().filter(card=card, capacity_type=capacity_type).first()


def _locked_intervals(keys: Sequence[int]) -> list[UsageInterval]:
    rows = UsageInterval.objects.select_for_update(of=("self",)).filter(pk__in=keys)
    return list(rows.select_related("team", "workload").order_by("pk"))


def _write(entries: Sequence[LedgerEntry], rows: Sequence[UsageInterval], priced: PricedCard | None) -> None:
    LedgerEntry.objects.bulk_create(entries)
    if entries:
        crash_point("settle-posted")
    UsageInterval.objects.bulk_update(rows, ["ended_at", "settled_until", "evidenced_until", "sealed"])
    if priced is not None:
        priced.save(update_fields=["carry_numerator", "carry_denominator"])


def _post(
    row: UsageInterval, priced: PricedCard, spans: Sequence[PriceSpan], pod: PodRecord | None, now: datetime
) -> list[LedgerEntry]:
    """Postings of what is used and priced but not in the ledger, up to the interval's end or `now`. What was used before
    the first price is passed over for good: `costs.prices.services.room_for` gives it none afterwards.
    """
    end = row.ended_at or now.replace(microsecond=0)
    segments = list(by_day(priced_segments(row.settled_until, end, spans)))
    if not segments:
        return []
    segments = list(cut(segments, moments_of(row, pod)))
    posted, priced.carry = lines(segments, row.cards, priced.carry)
    row.settled_until = segments[-1].end
    return [entry for line in posted for entry in posting(row, line, pod, now)]


def settle(usage: UsageInterval, *, now: datetime) -> list[LedgerEntry]:
    """Post what is used and priced but not yet in the ledger, up to the interval's end or `now`."""
    with transaction.atomic():
        leases.check()
        priced = _lock_card(usage.card, usage.capacity_type)
        if priced is None:
            return []
        rows = _locked_intervals([usage.pk])
        pod, spans = PodRecord.objects.filter(uid=usage.pod_uid).first(), spans_of(priced)
        entries = [entry for row in rows for entry in _post(row, priced, spans, pod, now)]
        if entries:
            hold_charges({usage.workload_id})
            _write(entries, rows, priced)
            since = min(entry.started_at for entry in entries)
            keep_within_limits({usage.workload_id}, since=since, now=now)
            lost_work.look_again(workload_ids={usage.workload_id})
    return entries


def close_ended(*, now: datetime) -> int:
    """Close the intervals that are open although their pods have ended; returns how many.

    No code of this version leaves one: this is for what an older version, a restored table or a person has left.
    """
    over = PodRecord.objects.filter(Q(finished_at__isnull=False) | Q(gone_at__isnull=False))
    left = UsageInterval.objects.filter(Exists(over.filter(uid=OuterRef("pod_uid"))), ended_at__isnull=True)
    with transaction.atomic():
        leases.check()
        uids = list(left.order_by("pk").values_list("pod_uid", flat=True)[:SETTLE_BATCH_MAX])
        rows = over.filter(uid__in=uids).select_for_update(no_key=True, of=("self",)).order_by("uid")
        return len(record_usages(list(rows.select_related("workload__flavor")), now=now))


def settle_due(*, now: datetime) -> int:
    """Post closed intervals that are not settled, and an hour of each that is still open; returns how many.

    First of all every interval is closed whose pod has ended: nothing is charged for the time after that.
    """
    close_ended(now=now)
    closed, old = Q(ended_at__isnull=False), Q(settled_until__lte=now - SETTLE_OPEN_EVERY)
    # What has no price stays due for as long as it takes, and must not fill every batch.
    priced = Price.objects.filter(
        Q(valid_until__isnull=True) | Q(valid_until__gt=OuterRef("settled_until")),
        priced__card=OuterRef("card"),
        priced__capacity_type=OuterRef("capacity_type"),
        valid_from__lt=Coalesce(OuterRef("ended_at"), now.replace(microsecond=0)),
    )
    due = UsageInterval.objects.filter(UsageInterval.unsettled(), closed | old).filter(Exists(priced))
    due = due.select_related("team", "workload").order_by("pk")
    return sum(1 for usage in due[:SETTLE_BATCH_MAX] if settle(usage, now=now))
