"""The only writers of prices, usage and the ledger."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from costs.pricing import Line, Segment, lines, priced_segments
from costs.queries import spans_of
from foundation.crashpoints import crash_point
from foundation.errors import Conflict, Invalid
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import PodRecord

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
    """The price from `valid_from` on; ends the one before it. What is already in the ledger stays."""
    if micro_usd_per_card_hour < 0:
        raise Invalid.of_field("micro_usd_per_card_hour", "A price is 0 or more.", code="min_value")
    valid_from = valid_from.replace(microsecond=0)
    with transaction.atomic():
        PricedCard.objects.get_or_create(card=card, capacity_type=capacity_type)
        priced = PricedCard.objects.select_for_update().get(card=card, capacity_type=capacity_type)
        same = priced.prices.filter(
            valid_from=valid_from, micro_usd_per_card_hour=micro_usd_per_card_hour
        ).first()
        if same is not None:
            return same
        earliest = priced.prices.order_by("valid_from").first()
        first = earliest is not None and valid_from < earliest.valid_from
        if not first and priced.prices.filter(valid_from__gte=valid_from).exists():
            raise Conflict.of_field("valid_from", "A later or equal price exists already.", code="not_latest")
        billed = LedgerEntry.objects.filter(price__priced=priced, ended_at__gt=valid_from).exists()
        # Before its first price a card was used without any, so nothing of that time is billed.
        if billed and not first:
            raise Conflict.of_field(
                "valid_from", "Usage after that time is already in the ledger.", code="already_billed"
            )
        if not first:
            priced.prices.filter(valid_until__isnull=True).update(valid_until=valid_from)
        price = Price.objects.create(
            priced=priced,
            micro_usd_per_card_hour=micro_usd_per_card_hour,
            valid_from=valid_from,
            valid_until=earliest.valid_from if first and earliest else None,
            actor=actor.label,
            reason=reason,
            created_at=now,
        )
        record_audit(
            actor=actor,
            action="price.changed",
            target_kind="price",
            target_id=str(price.public_id),
            after={
                "card": card,
                "capacity_type": capacity_type,
                "micro_usd_per_card_hour": micro_usd_per_card_hour,
                "valid_from": valid_from.isoformat(),
            },
            reason=reason,
            now=now,
        )
    return price


def record_usage(pod: PodRecord, *, now: datetime) -> UsageInterval | None:
    """Open or close the pod's interval from its row; closing also settles it. None while it has used nothing.

    What was settled beyond the end, while nobody had heard of it yet, is taken back.
    """
    workload = pod.workload
    if workload.flavor is None or pod.units == 0 or pod.scheduled_at is None:
        return None
    flavor = workload.flavor
    end = pod.ended_at.replace(microsecond=0) if pod.ended_at else None
    with transaction.atomic():
        usage, _ = UsageInterval.objects.get_or_create(
            pod_uid=pod.uid,
            defaults={
                "workload": workload,
                "team_id": workload.team_id,
                "node_name": pod.node_name,
                "flavor_name": flavor.name,
                "card": flavor.card,
                "capacity_type": workload.capacity_type,
                "units": pod.units,
                "fraction_numerator": flavor.fraction_numerator,
                "fraction_denominator": flavor.fraction_denominator,
                "started_at": pod.scheduled_at,
                "settled_until": pod.scheduled_at,
            },
        )
        if end is not None and usage.ended_at is None:
            _close(usage, max(end, usage.started_at), now)
    return usage


def _close(usage: UsageInterval, end: datetime, now: datetime) -> None:
    # The card before the interval, as everywhere: two who took them in turns would wait for each other.
    priced = _lock_card(usage)
    row = UsageInterval.objects.select_for_update().get(pk=usage.pk)
    if row.ended_at is None:
        if priced is not None and end < row.settled_until:
            _take_back(row, priced, end, now)
        row.ended_at = end
        row.settled_until = min(end, row.settled_until)
        row.save(update_fields=["ended_at", "settled_until"])
        settle(row, now=now)
    usage.ended_at, usage.settled_until = row.ended_at, row.settled_until


def _lock_card(usage: UsageInterval) -> PricedCard | None:
    cards = PricedCard.objects.select_for_update()
    return cards.filter(card=usage.card, capacity_type=usage.capacity_type).first()


def _take_back(usage: UsageInterval, priced: PricedCard, end: datetime, now: datetime) -> None:
    """Reverse the part of the interval's postings that lies after its end."""
    spans = {span.price_id: span for span in spans_of(priced)}
    posted = LedgerEntry.objects.filter(pod_uid=usage.pod_uid, reverses__isnull=True, ended_at__gt=end)
    carry, entries = priced.carry, []
    for side in posted.filter(account__startswith="team:", reversed_by__isnull=True).order_by("started_at"):
        if side.price_id is None:
            continue
        excess = Segment(max(end, side.started_at), side.ended_at, spans[side.price_id])
        (line,), carry = lines([excess], -usage.cards, carry)
        both = {row.account: row for row in posted.filter(transaction_id=side.transaction_id)}
        for entry in _both_sides(usage, line, now):
            entry.reverses = both[entry.account]
            entry.reason = "The pod had ended before."
            entries.append(entry)
    LedgerEntry.objects.bulk_create(entries)
    _keep_carry(priced, carry)


def _keep_carry(priced: PricedCard, carry: Fraction) -> None:
    priced.carry_numerator, priced.carry_denominator = carry.numerator, carry.denominator
    priced.save(update_fields=["carry_numerator", "carry_denominator"])


def settle(usage: UsageInterval, *, now: datetime) -> list[LedgerEntry]:
    """Post what is used and priced but not yet in the ledger, up to the interval's end or `now`."""
    with transaction.atomic():
        priced = _lock_card(usage)
        if priced is None:
            return []
        row = UsageInterval.objects.select_for_update().get(pk=usage.pk)
        end = row.ended_at or now.replace(microsecond=0)
        segments = list(priced_segments(row.settled_until, end, spans_of(priced)))
        if not segments:
            return []
        posted, carry = lines(segments, row.cards, priced.carry)
        entries = [entry for line in posted for entry in _both_sides(row, line, now)]
        LedgerEntry.objects.bulk_create(entries)
        crash_point("settle-posted")
        row.settled_until = segments[-1].end
        row.save(update_fields=["settled_until"])
        _keep_carry(priced, carry)
    return entries


def _both_sides(usage: UsageInterval, line: Line, now: datetime) -> list[LedgerEntry]:
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


def settle_due(*, now: datetime) -> int:
    """Post closed intervals that are not settled, and an hour of each that is still open; returns how many."""
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
    """Take a posting back by entries of the opposite amounts; Conflict if that was done before."""
    with transaction.atomic():
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
