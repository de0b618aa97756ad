"""What the pages of runs and endpoints ask; nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest

from cluster import quantities
from costs.queries import PriceBook, rate_now, spans_by_card
from foundation.errors import NotFound
from quotas.models import Quota
from quotas.queries import Stock, available_to, held_of, stock_of
from teams.models import Membership, Team
from teams.permissions import (
    has_global_role,
    membership_role,
    of_visible_teams,
    role_in,
    role_with,
    visible_teams,
)
from workloads.models import ResourceFlavor, Workload
from workloads.nodes.capacity import Host, hosts_of, nodes
from workloads.placement import ON_DEMAND, SPOT, NodeFacts, matches
from workloads.podspec.specs import SPOT_FIRST
from workloads.watches import Watches, watches

TEAMS_MAX = 200
BESIDE = ("team", "owner", "flavor")
"""What is read with every workload that is shown."""


def visible_workloads(user: Any, *, kind: str) -> QuerySet[Workload]:
    """The workloads of a kind that the user may know of, with what a row shows."""
    rows = Workload.objects.filter(of_visible_teams(user), kind=kind)
    return rows.select_related(*BESIDE)


def find_workload(
    user: Any,
    public_id: UUID,
    *,
    kind: str,
    noun: str,
    beside: Sequence[str] = (),
    annotated: Mapping[str, Any] | None = None,
) -> Workload:
    """The workload with the relations `beside` it, what it is `annotated` with and, as `my_role`, the role of the user's
    membership in its team; or NotFound, which is also the answer to a stranger.
    """
    rows = visible_workloads(user, kind=kind).select_related(*BESIDE, *beside)
    role = membership_role(user, "team")
    workload = rows.annotate(my_role=role, **annotated or {}).filter(public_id=public_id).first()
    if workload is None:
        raise NotFound(f"There is no such {noun}, or it is not yours.")
    return workload


def role_on(workload: Workload, user: Any) -> str | None:
    """The role that the user acts with in its team; no query where `find_workload` has found it for them."""
    if not hasattr(workload, "my_role"):
        return role_in(user, workload.team)
    return role_with(workload.my_role, user, workload.team)


def teams_of(request: HttpRequest) -> list[Team]:
    """The teams that the user may see, each with the `my_role` it has them in; asked once a request."""
    known: list[Team] | None = getattr(request, "portal_teams", None)
    if known is None:
        rows = visible_teams(request.user).annotate(my_role=membership_role(request.user, "pk"))
        known = list(rows[:TEAMS_MAX])
        request.portal_teams = known  # type: ignore[attr-defined]
    return known


def submit_teams(request: HttpRequest) -> list[Team]:
    """Those in which the user may submit, and which take something new."""
    open_teams = [team for team in teams_of(request) if team.closing_since is None]
    if has_global_role(request.user, "platform-admin"):
        return open_teams
    roles = {Membership.Role.MEMBER.value, Membership.Role.LEAD.value}
    return [team for team in open_teams if getattr(team, "my_role", None) in roles]


def watches_of(request: HttpRequest) -> Watches:
    """What is followed of the cluster; asked once a request, as the frame of every page says how fresh it is."""
    known: Watches | None = getattr(request, "portal_watches", None)
    if known is None:
        known = watches()
        request.portal_watches = known  # type: ignore[attr-defined]
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A flavor with one capacity type, as one team sees it. Money in micro-USD per unit and hour."""

    capacity_type: str
    rate_per_hour: int | None
    nominal: int | None
    left: int
    """Of the quota of the team's own."""
    available: int
    """What one claim may take now, borrowed from the cohort or of the team's own as far as that is not lent."""
    free: int
    """Units that nobody holds."""
    largest: int
    """Units of the largest node."""

    def has_room(self, each: int, pods: int) -> bool:
        """Whether so many pods, of so many units each, could start now as far as lists know: nodes may be too full one by
        one.
        """
        return each <= self.largest and max(1, each * pods) <= min(self.free, self.available)

    @property
    def borrowable(self) -> int:
        return max(0, self.available - self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorCard:
    """What can be asked for, and what there is of it.

    `units` counts those of ready nodes, `free` those that nobody holds.
    """

    flavor: ResourceFlavor
    offers: list[Offer]
    units: int
    free: int

    @property
    def claimed(self) -> int:
        """Units that somebody holds, as far as nodes show them."""
        return self.units - self.free

    @property
    def offered(self) -> bool:
        """Whether the team has quota for any of it."""
        return any(offer.nominal is not None for offer in self.offers)


def flavor_cards(
    *,
    team: Team | None,
    now: datetime,
    price_book: PriceBook | None = None,
    observed: Sequence[NodeFacts] | None = None,
) -> list[FlavorCard]:
    """Every enabled flavor with its prices, what is free of it, and what the team has left; four queries, without one
    for what the caller has read: `spans_by_card`, and the `nodes` that were observed.
    """
    book = spans_by_card() if price_book is None else price_book
    quotas = {
        (quota.flavor_id, quota.capacity_type): (quota, available)
        for quota, available in (available_to(team) if team else ())
    }
    there = nodes() if observed is None else observed
    cards = []
    for flavor in ResourceFlavor.objects.filter(enabled=True).annotate(held=held_of("pk", "resource")):
        stock = stock_of(flavor, nodes=there, held=flavor.held)
        offers = [
            _offer(quotas.get((flavor.pk, kind)), kind, rate_now(flavor, kind, 1, book, now), stock)
            for kind in sorted(flavor.capacity)
        ]
        cards.append(FlavorCard(flavor=flavor, offers=offers, units=stock.units, free=stock.free))
    return sorted(cards, key=lambda card: (not card.offered, card.flavor.name))


def usual_flavor(
    cards: Sequence[FlavorCard], *, capacity: str, gpus: int, pods: int, beside: Mapping[str, str]
) -> str:
    """The flavor that a form begins with: the cheapest with room now, else the cheapest of the team's; empty for none.

    `beside` is the cpu and memory of a pod, where they are known: a flavor goes last if none of its nodes has them.
    """
    wanted = {SPOT, ON_DEMAND} if capacity == SPOT_FIRST else {capacity}
    hosts = hosts_of(None, capacity) if beside else []
    ranked = []
    for card in cards if gpus > 0 else ():
        # Several shares or slices in a pod are refused.
        for offer in card.offers if gpus == 1 or card.flavor.sharing == "none" else ():
            if offer.capacity_type in wanted and offer.nominal is not None:
                full = not offer.has_room(gpus, pods)
                rate = offer.rate_per_hour
                facts = card.flavor.facts
                on = [host for host in hosts if matches(facts, offer.capacity_type, host.node)]
                small = bool(on) and not any(_has(host, beside) for host in on)
                ranked.append((small, full, rate is None, rate or 0, card.flavor.name))
    return min(ranked)[-1] if ranked else ""


def _has(host: Host, beside: Mapping[str, str]) -> bool:
    """Whether the node has that much of everything, as far as it says."""
    return all(
        quantities.parse(host.others.get(name, size)) >= quantities.parse(size)
        for name, size in beside.items()
    )


def _offer(of_team: tuple[Quota, int] | None, capacity_type: str, rate: int | None, stock: Stock) -> Offer:
    quota, available = of_team or (None, 0)
    return Offer(
        capacity_type=capacity_type,
        rate_per_hour=rate,
        nominal=quota.nominal if quota else None,
        left=max(0, quota.nominal - quota.used) if quota else 0,
        available=max(0, available),
        free=stock.free_of[capacity_type],
        largest=stock.largest_of[capacity_type],
    )
