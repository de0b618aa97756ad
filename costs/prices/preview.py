"""What would a change of prices do? Asked before it is made; nothing here writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db.models import Max, Sum

from costs.models import PricedCard, UsageInterval
from costs.prices.imports import Choice, MachineTable, ProposedPrice, propose
from costs.prices.services import check_card, check_price, room_for
from foundation.errors import FieldProblem, PortalError
from foundation.money import half_up


@dataclass(frozen=True, slots=True)
class TeamRate:
    """What a team's pods cost an hour at the price before and at the new one, in micro-USD; `cards` they hold."""

    team: str
    cards: Fraction
    before: int | None
    after: int

    @property
    def difference(self) -> int | None:
        return None if self.before is None else self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """A price of a card, beside the one whose place it would take. Money in micro-USD per card-hour."""

    card: str
    capacity_type: str
    valid_from: datetime
    valid_until: datetime | None
    """When a later price that is known takes over; None where none does, and for what is refused."""
    before: int | None
    """What a card-hour of that moment costs by the prices there are; None without one."""
    after: int
    teams: tuple[TeamRate, ...]
    """Of the pods that run at this moment."""
    billed_until: datetime | None
    """Until when something that still runs is in the ledger, where it stays as it is."""
    refused: tuple[FieldProblem, ...]

    @property
    def difference(self) -> int | None:
        return None if self.before is None else self.after - self.before

    @property
    def percent(self) -> str | None:
        """By how much it changes, such as `-12.50`; None without a price before, and of one that was 0."""
        if not self.before:
            return None
        hundredths = half_up(Fraction(10_000 * (self.after - self.before), self.before))
        whole, rest = divmod(abs(hundredths), 100)
        return f"{'-' if hundredths < 0 else ''}{whole}.{rest:02d}"

    @property
    def outcome(self) -> str:
        """`refused`, `new`, `same` (the price there is) or `changed`."""
        if self.refused:
            return "refused"
        if self.before is None:
            return "new"
        return "same" if self.before == self.after else "changed"


@dataclass(frozen=True, slots=True)
class ImportedPrice:
    """A price as a table gives it, and what setting it would change."""

    proposed: ProposedPrice
    change: PriceChange


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """What an import would set, and what of it is refused; setting it is refused as long as anything is."""

    table: MachineTable
    prices: tuple[ImportedPrice, ...]
    refused: tuple[FieldProblem, ...]

    @property
    def acceptable(self) -> bool:
        return not self.refused and not any(each.change.refused for each in self.prices)


def preview_price(
    *, card: str, capacity_type: str, micro_usd_per_card_hour: int, valid_from: datetime
) -> PriceChange:
    """What setting the price would do; four queries."""
    valid_from = valid_from.replace(microsecond=0)
    priced = PricedCard.objects.filter(card=card, capacity_type=capacity_type).first()
    refused: list[FieldProblem] = []
    until = None
    try:
        check_card(card)
        check_price(micro_usd_per_card_hour, valid_from)
        if priced is not None and not priced.prices.filter(
            valid_from=valid_from, micro_usd_per_card_hour=micro_usd_per_card_hour
        ):
            until = room_for(priced, valid_from)
    except PortalError as error:
        refused += error.errors
    before = None if priced is None else _price_at(priced, valid_from)
    held = UsageInterval.objects.filter(card=card, capacity_type=capacity_type, ended_at__isnull=True)
    return PriceChange(
        card=card,
        capacity_type=capacity_type,
        valid_from=valid_from,
        valid_until=until,
        before=before,
        after=micro_usd_per_card_hour,
        teams=_rates(
            list(
                held.order_by()
                .values_list("team__slug", "fraction_numerator", "fraction_denominator")
                .annotate(held=Sum("units"))
            ),
            before,
            micro_usd_per_card_hour,
        ),
        billed_until=held.aggregate(newest=Max("settled_until"))["newest"],
        refused=tuple(refused),
    )


def preview_import(table: MachineTable, choices: Sequence[Choice], *, valid_from: datetime) -> ImportPreview:
    """What setting the chosen prices of the table would do."""
    proposed, refused = propose(table, choices)
    prices = tuple(
        ImportedPrice(
            each,
            preview_price(
                card=each.card,
                capacity_type=each.capacity_type,
                micro_usd_per_card_hour=each.micro_usd_per_card_hour,
                valid_from=valid_from,
            ),
        )
        for each in proposed
    )
    return ImportPreview(table, prices, tuple(refused))


def _price_at(priced: PricedCard, moment: datetime) -> int | None:
    holding = priced.prices.filter(valid_from__lte=moment).exclude(valid_until__lte=moment)
    return holding.values_list("micro_usd_per_card_hour", flat=True).first()


def _rates(rows: Iterable[tuple[Any, ...]], before: int | None, after: int) -> tuple[TeamRate, ...]:
    cards: dict[str, Fraction] = defaultdict(Fraction)
    for team, numerator, denominator, units in rows:
        cards[team] += units * Fraction(numerator, denominator)
    return tuple(
        TeamRate(team, held, None if before is None else half_up(held * before), half_up(held * after))
        for team, held in sorted(cards.items())
    )
