"""The only writer of usage and of the ledger's lines of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from costs.ledger.accounts import SUPPLY, lane_account, team_account
from costs.ledger.postings import ENDED_BEFORE, STILL_THERE, standing_postings
from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from costs.pricing import PricedSegment, PriceSpan, Segment, by_day, lines, priced_segments
from costs.queries import spans_of
from foundation import leases
from foundation.crashpoints import crash_point
from foundation.errors import Conflict, Invalid
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import PodRecord, Workload

SETTLE_OPEN_EVERY = timedelta(hours=1)
SETTLE_BATCH_MAX = 500
PROJECT_LABEL = "project"


def record_usage(pod: PodRecord, *, now: datetime) -> UsageInterval | None:
    """The pod's interval, as its row says now; None while it has used nothing."""
    return record_usages([pod], now=now).get(pod.uid)


def record_usages(pods: Sequence[PodRecord], *, now: datetime) -> dict[str, UsageInterval]:
    """Open, close or correct the pods' intervals so that they say what the rows say; by UID. Closing also settles.

    Call with rows that are locked, in the transaction that writes them: then every interval that is closed has ended,
    whatever ends this process. What was settled beyond an end that was not known yet is taken back, and a pod that was
    taken for ended and is there is charged on, without a gap.
    """
    ends = {pod.uid: _end_of(pod) for pod in pods if pod.units > 0 and pod.scheduled_at is not None}
    if not ends:
        return {}
    with transaction.atomic():
        intervals = _intervals(ends)
        made = [
            usage for pod in pods if pod.uid not in intervals and (usage := _interval_of(pod)) is not None
        ]
        if made:
            UsageInterval.objects.bulk_create(made, ignore_conflicts=True)
            intervals |= _intervals([usage.pod_uid for usage in made])
        wrong: dict[tuple[str, str], list[UsageInterval]] = {}
        for usage in intervals.values():
            if usage.ended_at != _bounded(ends[usage.pod_uid], usage):
                wrong.setdefault((usage.card, usage.capacity_type), []).append(usage)
        # Cards in one order, and before their intervals: two transactions that took them in turns would wait for each other.
        for card, usages in sorted(wrong.items()):
            intervals |= _correct(card, usages, ends, now)
    return intervals


def _end_of(pod: PodRecord) -> datetime | None:
    return pod.ended_at.replace(microsecond=0) if pod.ended_at else None


def _bounded(end: datetime | None, usage: UsageInterval) -> datetime | None:
    return None if end is None else max(end, usage.started_at)


def _intervals(uids: Collection[str]) -> dict[str, UsageInterval]:
    rows = UsageInterval.objects.select_related("team", "workload").filter(pod_uid__in=list(uids))
    return {usage.pod_uid: usage for usage in rows}


def _interval_of(pod: PodRecord) -> UsageInterval | None:
    """A new one; None of a pod that holds no GPU of a node."""
    workload, flavor = pod.workload, pod.workload.flavor
    if flavor is None or pod.units == 0 or pod.scheduled_at is None:
        return None
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
        started_at=pod.scheduled_at,
        settled_until=pod.scheduled_at,
    )


def _correct(
    card: tuple[str, str], usages: Sequence[UsageInterval], ends: Mapping[str, datetime | None], now: datetime
) -> dict[str, UsageInterval]:
    """Give intervals of one card their ends, and the ledger what that means."""
    priced = _lock_card(*card)
    rows = _locked_intervals([usage.pk for usage in usages])
    spans = spans_of(priced)
    entries: list[LedgerEntry] = []
    for row in rows:
        end = _bounded(ends[row.pod_uid], row)
        if priced is not None:
            entries += _move_end(row, priced, spans, end, now)
        row.ended_at = end
        if end is not None:
            row.settled_until = min(end, row.settled_until)
            if priced is not None:
                entries += _post(row, priced, spans, now)
    _write(entries, rows, priced)
    return {row.pod_uid: row for row in rows}


def _lock_card(card: str, capacity_type: str) -> PricedCard | None:
    return PricedCard.objects.select_for_update().filter(card=card, capacity_type=capacity_type).first()


def _locked_intervals(keys: Sequence[int]) -> list[UsageInterval]:
    rows = UsageInterval.objects.select_for_update(of=("self",)).filter(pk__in=keys)
    return list(rows.select_related("team", "workload").order_by("pk"))


def _write(entries: Sequence[LedgerEntry], rows: Sequence[UsageInterval], priced: PricedCard | None) -> None:
    LedgerEntry.objects.bulk_create(entries)
    if entries:
        crash_point("settle-posted")
    UsageInterval.objects.bulk_update(rows, ["ended_at", "settled_until"])
    if priced is not None:
        priced.save(update_fields=["carry_numerator", "carry_denominator"])


def _move_end(
    row: UsageInterval, priced: PricedCard, spans: Sequence[PriceSpan], end: datetime | None, now: datetime
) -> list[LedgerEntry]:
    """What makes the interval's postings stand until `end`, and what was taken back before it stand again."""
    if row.ended_at is None and (end is None or end >= row.settled_until):
        return []
    prices = {span.price_id: span for span in spans}
    entries: list[LedgerEntry] = []
    until = row.settled_until if end is None else min(end, row.settled_until)
    for posting in standing_postings(row.pod_uid):
        stands_until = (
            posting.ended_at if end is None else min(max(end, posting.started_at), posting.ended_at)
        )
        until = max(until, stands_until)
        if stands_until == posting.stands_until:
            continue
        back = stands_until < posting.stands_until
        first, last = sorted((stands_until, posting.stands_until))
        (line,), carry = lines(
            [Segment(first, last, prices[posting.price_id])], row.cards * (-1 if back else 1), priced.carry
        )
        _carry_on(priced, carry)
        against = posting.sides if back else posting.taken_back
        for entry in _both_sides(row, line, now):
            entry.reverses = against[entry.account]
            entry.reason = ENDED_BEFORE if back else STILL_THERE
            entries.append(entry)
    row.settled_until = until
    return entries


def _carry_on(priced: PricedCard, carry: Fraction) -> None:
    priced.carry_numerator, priced.carry_denominator = carry.numerator, carry.denominator


def _post(
    row: UsageInterval, priced: PricedCard, spans: Sequence[PriceSpan], now: datetime
) -> list[LedgerEntry]:
    """Postings of what is used and priced but not in the ledger, up to the interval's end or `now`."""
    end = row.ended_at or now.replace(microsecond=0)
    segments = list(by_day(priced_segments(row.settled_until, end, spans)))
    if not segments:
        return []
    posted, carry = lines(segments, row.cards, priced.carry)
    _carry_on(priced, carry)
    row.settled_until = segments[-1].end
    return [entry for line in posted for entry in _both_sides(row, line, now)]


def settle(usage: UsageInterval, *, now: datetime) -> list[LedgerEntry]:
    """Post what is used and priced but not yet in the ledger, up to the interval's end or `now`."""
    with transaction.atomic():
        leases.check()
        priced = _lock_card(usage.card, usage.capacity_type)
        if priced is None:
            return []
        rows = _locked_intervals([usage.pk])
        entries = [entry for row in rows for entry in _post(row, priced, spans_of(priced), now)]
        if entries:
            _write(entries, rows, priced)
    return entries


def _both_sides(usage: UsageInterval, line: PricedSegment, now: datetime) -> list[LedgerEntry]:
    transaction_id = uuid4()
    sides = ((team_account(usage.team.slug), 1), (lane_account(SUPPLY, usage.card, usage.capacity_type), -1))
    return [
        LedgerEntry(
            transaction_id=transaction_id,
            account=account,
            team=usage.team,
            workload=usage.workload,
            pod_uid=usage.pod_uid,
            node_name=usage.node_name,
            flavor_name=usage.flavor_name,
            started_at=line.segment.start,
            ended_at=line.segment.end,
            price_id=line.segment.span.price_id,
            units=usage.units,
            user_id=usage.workload.owner_id,
            project=project_of(usage.workload),
            amount_micro_usd=sign * line.amount_micro_usd,
            posted_at=now,
        )
        for account, sign in sides
    ]


def project_of(workload: Workload) -> str:
    """The project that a workload's costs belong to: its label `project`, or none."""
    return str(workload.labels.get(PROJECT_LABEL, ""))[:63]


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
    closed = Q(ended_at__isnull=False) & ~Q(settled_until=F("ended_at"))
    old = Q(ended_at__isnull=True, settled_until__lte=now - SETTLE_OPEN_EVERY)
    # What has no price stays due for as long as it takes, and must not fill every batch.
    priced = Price.objects.filter(
        Q(valid_until__isnull=True) | Q(valid_until__gt=OuterRef("settled_until")),
        priced__card=OuterRef("card"),
        priced__capacity_type=OuterRef("capacity_type"),
        valid_from__lte=OuterRef("settled_until"),
    )
    due = UsageInterval.objects.filter(closed | old).filter(Exists(priced))
    due = due.select_related("team", "workload").order_by("pk")
    return sum(1 for usage in due[:SETTLE_BATCH_MAX] if settle(usage, now=now))


def reverse(entry: LedgerEntry, *, reason: str, actor: Actor, now: datetime) -> list[LedgerEntry]:
    """Take a posting back by entries of the opposite amounts; Conflict if that was done before. Invalid for a reason by
    which the ledger knows what it has taken back itself.
    """
    if reason.strip() in {ENDED_BEFORE, STILL_THERE}:
        message = "This is what the ledger says of itself: give the reason in other words."
        raise Invalid.of_field("reason", message, code="reserved")
    with transaction.atomic():
        # Whose end is moved has the card's row: until that is over it is not known what is left to reverse.
        PricedCard.objects.select_for_update(of=("self",)).filter(prices=entry.price_id).first()
        sides = list(LedgerEntry.objects.select_for_update().filter(transaction_id=entry.transaction_id))
        if any(side.reversed_by.exists() for side in sides):
            raise Conflict("This posting was reversed already.", code="already_reversed")
        transaction_id = uuid4()
        reversed_sides = [_opposite(side, transaction_id, reason, now) for side in sides]
        LedgerEntry.objects.bulk_create(reversed_sides)
        record_audit(
            actor=actor,
            action="ledger.reversed",
            target_kind="ledger",
            target_id=str(entry.transaction_id),
            team=entry.team,
            after={"transaction_id": str(transaction_id)},
            reason=reason,
            now=now,
        )
    return reversed_sides


def _opposite(side: LedgerEntry, transaction_id: UUID, reason: str, now: datetime) -> LedgerEntry:
    kept = (
        "account",
        "team",
        "workload",
        "pod_uid",
        "node_name",
        "flavor_name",
        "started_at",
        "ended_at",
        "price",
        "user",
        "project",
        "phase",
    )
    return LedgerEntry(
        **{name: getattr(side, name) for name in kept},
        transaction_id=transaction_id,
        units=side.units,
        amount_micro_usd=-side.amount_micro_usd,
        reverses=side,
        reason=reason,
        posted_at=now,
    )
