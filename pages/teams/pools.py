"""A team as its pages show it: what the person may do in it, and its quotas with all that is said of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest

from costs.queries import PriceBook, rate_now
from foundation.errors import NotFound
from pages.quotas.bars import Bar, QuotaFacts
from quotas.models import TeamPolicy
from quotas.queries import QuotaFigures, stock_of, team_quotas
from teams.models import Membership, Team
from teams.permissions import has_global_role, membership_role, role_with, visible_teams
from workloads.nodes.capacity import nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSeen:
    """A team and who looks at it: `mine` is the role of their own membership, empty without one, `role` the one that
    they act with.
    """

    team: Team
    policy: TeamPolicy
    mine: str
    role: str | None
    may_set_quota: bool

    @property
    def may_manage(self) -> bool:
        return self.role == Membership.Role.LEAD

    @property
    def may_submit(self) -> bool:
        return self.team.closing_since is None and self.role in {Membership.Role.MEMBER, Membership.Role.LEAD}

    @property
    def may_steer_queue(self) -> bool:
        return self.team.closing_since is None and (self.may_set_quota or self.may_manage)


def team_seen(request: HttpRequest, slug: str, *beside: str) -> TeamSeen:
    """The team with its rules, the person's role and the relations `beside` it, in one query.

    Raises NotFound, also for a stranger.
    """
    rows = visible_teams(request.user).select_related("policy__queue_stopped_by", *beside)
    team = rows.annotate(mine=membership_role(request.user, "pk")).filter(slug=slug).first()
    if team is None:
        raise NotFound("There is no such team, or you are not a member of it.")
    return TeamSeen(
        team=team,
        policy=getattr(team, "policy", None) or TeamPolicy(team=team),
        mine=team.mine or "",
        role=role_with(team.mine, request.user, team),
        may_set_quota=has_global_role(request.user, "quota-manager"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLine:
    """One quota as its team sees it. `offered` is what may be asked for now; `free` units are held by nobody."""

    figures: QuotaFigures
    bar: Bar
    offered: bool
    rate_per_hour: int | None
    free: int | None

    @property
    def over(self) -> int:
        return self.bar.over


def pool_lines(team: Team, *, price_book: PriceBook, now: datetime) -> list[PoolLine]:
    """The team's quotas with all their numbers; two queries."""
    observed = nodes()
    lines = []
    for figures in team_quotas(team):
        flavor, kind = figures.quota.flavor, figures.quota.capacity_type
        stock = stock_of(flavor, nodes=observed, held=figures.held)
        lines.append(
            PoolLine(
                figures=figures,
                bar=_bar(figures),
                offered=flavor.enabled and kind in flavor.capacity,
                rate_per_hour=rate_now(flavor, kind, 1, price_book, now),
                free=stock.free_of.get(kind, 0) if flavor.enabled else None,
            )
        )
    return lines


def _bar(figures: QuotaFigures) -> Bar:
    quota = figures.quota
    facts = QuotaFacts(
        nominal=quota.nominal,
        used=quota.used,
        ceiling=figures.ceiling,
        available=figures.available,
        headroom=quota.headroom,
        lent_headroom=quota.lent_headroom,
        lent=figures.lent,
        pending=figures.pending,
    )
    return Bar(facts, what=f"{quota.flavor.name} {quota.capacity_type}")
