"""The only writers of prices, usage and the ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from costs.postings import ENDED_BEFORE, STILL_THERE, standing_postings
from costs.pricing import PricedSegment, PriceSpan, Segment, lines, priced_segments
from costs.queries import spans_of
from foundation import clock, leases
from foundation.crashpoints import crash_point
from foundation.errors import Conflict, Invalid, NotFound
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import PodRecord, ResourceFlavor

# The rule that no two prices of a card overlap counts seconds from 1970 on and has 36 bits for them (until 4147).
PRICE_YEARS = range(1970, 4000)
SETTLE_OPEN_EVERY = timedelta(hours=1)
SETTLE_BATCH_MAX = 500


def set_price(
    *,
    card: str,
    capacity_type: str,
    micro_usd_per_card_hour: int,
    valid_from: datetime,
    reason: str,
    actor: Actor,
    now: datetime,
) -> Price:
    """The price from `valid_from` on; ends the one before it. What is already in the ledger stays.

    Raises Invalid for less than 0 and for a time outside of PRICE_YEARS (UTC); Conflict for one at or before a later
    price, unless it comes before the first, and for one whose usage is in the ledger.
    """
    _check_price(micro_usd_per_card_hour, valid_from)
    valid_from = valid_from.replace(microsecond=0)
    with transaction.atomic():
        PricedCard.objects.get_or_create(card=card, capacity_type=capacity_type)
        priced = PricedCard.objects.select_for_update().get(card=card, capacity_type=capacity_type)
        same = priced.prices.filter(
            valid_from=valid_from, micro_usd_per_card_hour=micro_usd_per_card_hour
        ).first()
        if same is not None:
            return same
        price = Price.objects.create(
            priced=priced,
            micro_usd_per_card_hour=micro_usd_per_card_hour,
            valid_from=valid_from,
            valid_until=_make_room(priced, valid_from),
            actor=actor.label,
            reason=reason,
            created_at=now,
        )
        _audit_price("price.changed", price, after=_facts(price), reason=reason, actor=actor, now=now)
    return price


def withdraw_price(*, price: Price, actor: Actor, now: datetime) -> None:
    """Take back a price that has not begun: the one before it goes on. Conflict for one that has begun."""
    with transaction.atomic():
        priced = PricedCard.objects.select_for_update().get(pk=price.priced_id)
        gone = priced.prices.filter(pk=price.pk).first()
        if gone is None:
            raise NotFound("This price is gone.")
        # The lock may have been waited for until it began.
        if gone.valid_from <= max(now, clock.now()) or LedgerEntry.objects.filter(price=gone).exists():
            message = (
                f"This price holds since {gone.valid_from:%Y-%m-%d %H:%M:%S} UTC. Set another one instead."
            )
            raise Conflict(message, code="price_began")
        gone.delete()
        priced.prices.filter(valid_until=gone.valid_from).update(valid_until=gone.valid_until)
        _audit_price("price.withdrawn", price, before=_facts(gone), actor=actor, now=now)


def check_card(card: str) -> None:
    """Raise Invalid for a card that no flavor is cut from, and whose price nothing would ever be billed by."""
    cards = sorted(set(ResourceFlavor.objects.values_list("card", flat=True)))
    if card not in cards and not _was_used(card):
        message = f"No flavor is cut from such a card. There is: {', '.join(cards) or 'none'}."
        raise Invalid.of_field("card", message, code="unknown_card")


def _was_used(card: str) -> bool:
    """Whether something of the card is priced, or may still have to be, though no flavor says so any more."""
    priced = PricedCard.objects.filter(card=card)
    return priced.exists() or UsageInterval.objects.filter(card=card).exists()


def _facts(price: Price) -> dict[str, str | int]:
    return {
        "card": price.priced.card,
        "capacity_type": price.priced.capacity_type,
        "micro_usd_per_card_hour": price.micro_usd_per_card_hour,
        "valid_from": price.valid_from.isoformat(),
    }


def _audit_price(action: str, price: Price, *, actor: Actor, now: datetime, **more: Any) -> None:
    record_audit(
        actor=actor,
        action=action,
        target_kind="price",
        target_id=str(price.public_id),
        target_name=f"{price.priced.card} {price.priced.capacity_type}",
        now=now,
        **more,
    )


def _check_price(micro_usd_per_card_hour: int, valid_from: datetime) -> None:
    if micro_usd_per_card_hour < 0:
        raise Invalid.of_field("micro_usd_per_card_hour", "A price is 0 or more.", code="min_value")
    if valid_from.astimezone(UTC).year not in PRICE_YEARS:
        message = f"A price begins in one of the years {PRICE_YEARS[0]} to {PRICE_YEARS[-1]}."
        raise Invalid.of_field("valid_from", message, code="out_of_range")


def _make_room(priced: PricedCard, valid_from: datetime) -> datetime | None:
    """When a price from `valid_from` on ends, if it comes before the first; else the one before it ends then."""
    earliest = priced.prices.order_by("valid_from").first()
    # Before its first price a card was used without any, so nothing of that time is billed.
    if earliest is not None and valid_from < earliest.valid_from:
        return earliest.valid_from
    if priced.prices.filter(valid_from__gte=valid_from).exists():
        raise Conflict.of_field("valid_from", "A later or equal price exists already.", code="not_latest")
    if LedgerEntry.objects.filter(price__priced=priced, ended_at__gt=valid_from).exists():
        message = "Usage after that time is already in the ledger."
        raise Conflict.of_field("valid_from", message, code="already_billed")
    priced.prices.filter(valid_until__isnull=True).update(valid_until=valid_from)
    return None


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
    segments = list(priced_segments(row.settled_until, end, spans))
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
    sides = ((f"team:{usage.team.slug}", 1), (f"supply:{usage.card}:{usage.capacity_type}", -1))
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
            amount_micro_usd=sign * line.amount_micro_usd,
            posted_at=now,
        )
        for account, sign in sides
    ]


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
