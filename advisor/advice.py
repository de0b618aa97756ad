"""Which flavors of a team hold a model, with what they cost now; nothing here writes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from advisor.demand import Demand
from advisor.fitting import CARDS_MAX, Fit, Isolation, Offered, UnitPool, fits_of, message_of
from advisor.memory_sum import MemorySum, memory_sum
from costs.queries import PriceBook, exact_rate_now, spans_by_card
from quotas.models import Quota
from teams.models import Team
from workloads.nodes.capacity import Observed, observe, rooms_of
from workloads.nodes.sizing import least_share
from workloads.placement import matching_nodes
from workloads.podrequests import others_left


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """`memory` is the sum for one card, or for each of the cards that were asked for."""

    demand: Demand
    memory: MemorySum
    fits: list[Fit]
    message: str


def advise(*, demand: Demand, team: Team, isolation: Isolation, cards: int | None, now: datetime) -> Advice:
    """The memory sum, and the answer for every enabled flavor that the team has a quota row for; four queries."""
    fits = fits_of(demand, offered_to(team, now=now), isolation=isolation, cards=cards)
    return Advice(
        demand=demand,
        memory=memory_sum(demand, cards=cards or 1),
        fits=fits,
        message=message_of(demand, fits, cards=cards),
    )


def offered_to(team: Team, *, now: datetime) -> list[Offered]:
    """The team's flavors by name, with nodes that exist or may come."""
    book, known = spans_by_card(), observe()
    quotas: dict[int, list[Quota]] = defaultdict(list)
    for quota in Quota.objects.filter(team=team, flavor__enabled=True).select_related("flavor"):
        if quota.capacity_type in quota.flavor.capacity:
            quotas[quota.flavor_id].append(quota)
    offered = [
        Offered(
            facts=rows[0].flavor.facts,
            memory_gib=rows[0].flavor.memory_gib,
            pools=tuple(
                _pool(row, known, book, now) for row in sorted(rows, key=lambda row: row.capacity_type)
            ),
        )
        for rows in quotas.values()
    ]
    return sorted(offered, key=lambda flavor: flavor.facts.name)


def _pool(quota: Quota, known: Observed, book: PriceBook, now: datetime) -> UnitPool:
    flavor, capacity_type = quota.flavor, quota.capacity_type
    facts = flavor.facts
    rooms = rooms_of(flavor, capacity_type, known=known)
    there = matching_nodes(facts, capacity_type, known.nodes)
    block = rooms.provisionable_block
    to_come = min(rooms.provisionable_units // block, CARDS_MAX) if block else 0
    hosts = [(node, known.offered.get(node.name, ())) for node in there]
    left = [others_left(others, known.taken.get((node.name, True))) for node, others in hosts]
    return UnitPool(
        capacity_type=capacity_type,
        blocks=(*(node.allocatable[facts.resource] for node in there), *[block] * to_come),
        quota=quota.ceiling,
        rate_per_hour=exact_rate_now(flavor, capacity_type, 1, book, now),
        others=(*left, *[rooms.provisionable_others] * to_come),
        share=partial(least_share, hosts, facts),
    )
