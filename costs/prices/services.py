"""The only writer of prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import ResourceFlavor

# The rule that no two prices of a card overlap counts seconds from 1970 on and has 36 bits for them (until 4147).
PRICE_YEARS = range(1970, 4000)
MICRO_USD_MAX = 1_000_000_000_000


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
    check_price(micro_usd_per_card_hour, valid_from)
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
            valid_until=room_for(priced, valid_from, end_before=True),
            actor=actor.label,
            reason=reason,
            created_at=now,
        )
        _audit_price("price.changed", price, after=_facts(price), reason=reason, actor=actor, now=now)
    return price


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrice:
    """A price of a card and capacity type, without its time."""

    card: str
    capacity_type: str
    micro_usd_per_card_hour: int


def set_prices(
    prices: Sequence[NewPrice], *, valid_from: datetime, reason: str, actor: Actor, now: datetime
) -> list[Price]:
    """All these prices from one moment on, or none of them; returns those that are new.

    A card that costs the same at that moment keeps its price. Raises what `set_price` and `check_card` raise.
    """
    made = []
    with transaction.atomic():
        # Cards in one order: two imports that took them in turns would wait for each other.
        for each in sorted(prices, key=lambda price: (price.card, price.capacity_type)):
            check_card(each.card)
            if _costs_that(each, valid_from.replace(microsecond=0)):
                continue
            price = set_price(
                card=each.card,
                capacity_type=each.capacity_type,
                micro_usd_per_card_hour=each.micro_usd_per_card_hour,
                valid_from=valid_from,
                reason=reason,
                actor=actor,
                now=now,
            )
            made.append(price)
    return made


def _costs_that(price: NewPrice, moment: datetime) -> bool:
    holding = Price.objects.filter(
        priced__card=price.card, priced__capacity_type=price.capacity_type, valid_from__lte=moment
    ).exclude(valid_until__lte=moment)
    return holding.filter(micro_usd_per_card_hour=price.micro_usd_per_card_hour).exists()


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


def cards_with_prices() -> list[str]:
    """The cards that may have a price: of a flavor, or priced before; by name."""
    of_flavors = ResourceFlavor.objects.values_list("card", flat=True)
    return sorted({*of_flavors, *PricedCard.objects.values_list("card", flat=True)})


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


def check_price(micro_usd_per_card_hour: int, valid_from: datetime) -> None:
    """Raise Invalid for less than 0, more than MICRO_USD_MAX, and a time outside of PRICE_YEARS (UTC)."""
    if micro_usd_per_card_hour < 0:
        raise Invalid.of_field("micro_usd_per_card_hour", "A price is 0 or more.", code="min_value")
    if micro_usd_per_card_hour > MICRO_USD_MAX:
        message = f"A card costs {MICRO_USD_MAX // 1_000_000:,} USD an hour at most."
        raise Invalid.of_field("micro_usd_per_card_hour", message, code="max_value")
    if valid_from.astimezone(UTC).year not in PRICE_YEARS:
        message = f"A price begins in one of the years {PRICE_YEARS[0]} to {PRICE_YEARS[-1]}."
        raise Invalid.of_field("valid_from", message, code="out_of_range")


def room_for(priced: PricedCard, valid_from: datetime, *, end_before: bool = False) -> datetime | None:
    """When a price from `valid_from` on would end: where the first begins, if it comes before that; else None.

    With `end_before` the price before it ends where it begins. Raises Conflict for a time that is not free.
    """
    earliest = priced.prices.order_by("valid_from").first()
    if earliest is not None and valid_from < earliest.valid_from:
        # What ended before the first price is not billed; what ran on is, from that price on, and has passed over the time
        # before it.
        passed = UsageInterval.objects.filter(
            Q(ended_at__isnull=True) | Q(ended_at__gt=valid_from),
            card=priced.card,
            capacity_type=priced.capacity_type,
            started_at__lt=earliest.valid_from,
            settled_until__gt=F("started_at"),
        )
        if passed.exists():
            raise _already_billed()
        return earliest.valid_from
    if priced.prices.filter(valid_from__gte=valid_from).exists():
        raise Conflict.of_field("valid_from", "A later or equal price exists already.", code="not_latest")
    if LedgerEntry.objects.filter(price__priced=priced, ended_at__gt=valid_from).exists():
        raise _already_billed()
    if end_before:
        priced.prices.filter(valid_until__isnull=True).update(valid_until=valid_from)
    return None


def _already_billed() -> Conflict:
    message = "Usage after that time is already in the ledger."
    return Conflict.of_field("valid_from", message, code="already_billed")
