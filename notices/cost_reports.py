"""What a report of costs tells: the sums of the page of costs, of a month or a week that is over, for one reader."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings

from costs.models import Budget, BudgetPeriod
from costs.reports.comparisons import lost_by_platform, spent_on_failed, use_of_capacity
from costs.reports.groups import CostGroup
from costs.reports.queries import spent
from costs.reports.sql import one_moment
from costs.reports.windows import DAY, CostWindow
from foundation.money import as_json, half_up
from notices.models import NoticeSubscription
from notices.periods import ReportPeriod, Rhythm
from notices.texts import report_message
from teams.models import Team, User
from teams.permissions import has_global_role, visible_teams

DEAREST: Final = 10
TEAMS_MAX: Final = 20
"""How many runs and endpoints, and how many teams, have a line of their own."""
EXPORT: Final = "/api/v1/costs/export.csv"


def teams_told(subscription: NoticeSubscription, reader: User | None) -> list[Team] | None:
    """Whose costs the reader is told: of a team's subscription that team, of their own all that they may see now.

    None is all teams there are, an empty list nothing that may be told. `reader` is None of a team's webhook or chat.
    """
    if subscription.team is not None:
        if reader is None:
            return [subscription.team]
        return list(visible_teams(reader).filter(pk=subscription.team.pk))
    if reader is None or not reader.is_active:
        return []
    return None if has_global_role(reader) else list(visible_teams(reader).order_by("slug"))


def report_of(teams: Sequence[Team] | None, period: ReportPeriod, *, now: datetime) -> dict[str, Any]:
    """What is told of these teams (None: all there are, with what nobody used), as receivers get it; of one moment."""
    keys = None if teams is None else [team.pk for team in teams]
    window = _window(period)
    with one_moment():
        report = spent(teams=keys, window=window, group_by="workload", now=now, limit=DEAREST)
        by_team = spent(teams=keys, window=window, group_by="team", now=now, limit=TEAMS_MAX)
        before = spent(teams=keys, window=_window(period.before), group_by="month", now=now)
        budgets = _budgets(keys, period)
        failed = spent_on_failed(teams=keys, window=window)
        lost = lost_by_platform(teams=keys, window=window)
        capacity = _capacity(window) if teams is None else None
    total, previous = report.total_micro_usd, before.total_micro_usd
    alone = teams[0].slug if teams is not None and len(teams) == 1 else ""
    data: dict[str, Any] = {
        "id": period.key,
        "team": alone,
        "about": None if teams is None else sorted(team.slug for team in teams),
        "title": period.title,
        "from": period.starts_at.isoformat(),
        "to": period.ends_at.isoformat(),
        "total": as_json(total),
        "previous": as_json(previous),
        "previous_title": period.before.title,
        "change_percent": half_up(Fraction((total - previous) * 100, previous)) if previous else None,
        "dearest": [_workload(group) for group in report.groups if group.workload is not None],
        "teams": [_team(group, budgets.get(group.key)) for group in by_team.groups if group.key],
        "failed": as_json(failed),
        "lost": as_json(lost),
        "capacity": capacity,
        "complete": not report.unpriced,
        **_links(period, alone),
    }
    others = total - sum(each["cost"]["amount_micro_usd"] for each in data["dearest"])
    return {**data, "others": as_json(others), "message": report_message(data)}


def _window(period: ReportPeriod) -> CostWindow:
    return CostWindow(period.starts_at, period.ends_at)


def _budgets(keys: Collection[int] | None, period: ReportPeriod) -> dict[str, int]:
    """What each team might spend in that month, with what was given on top, by slug; none of a week."""
    rows = BudgetPeriod.objects.filter(
        budget__period=Budget.Period.MONTH, starts_at=period.starts_at, ends_at=period.ends_at
    )
    if keys is not None:
        rows = rows.filter(budget__team__in=keys)
    return dict(rows.values_list("budget__team__slug", "ceiling_micro_usd"))


def _workload(group: CostGroup) -> dict[str, Any]:
    workload = group.workload
    if workload is None:
        raise ValueError("This is no run and no endpoint.")
    kind = workload.own_kind
    return {
        "id": str(workload.public_id),
        "noun": kind.noun,
        "team": workload.team.slug,
        "name": workload.name,
        "owner": workload.owner.get_username(),
        "cost": as_json(group.amount_micro_usd),
        "url": f"{settings.PUBLIC_URL}{kind.page_of(workload.public_id)}",
    }


def _team(group: CostGroup, budget: int | None) -> dict[str, Any]:
    amount = group.amount_micro_usd
    return {
        "team": group.key,
        "cost": as_json(amount),
        "budget": as_json(budget),
        "budget_percent": amount * 100 // budget if budget else None,
    }


def _capacity(window: CostWindow) -> dict[str, Any]:
    """What became of the money that all cards were worth."""
    lanes = use_of_capacity(window)
    whole, idle = sum(lane.total for lane in lanes), sum(lane.idle for lane in lanes)
    return {
        "idle": as_json(idle),
        "stranded": as_json(sum(lane.stranded for lane in lanes)),
        "idle_percent": round(idle * 100 / whole, 1) if whole else None,
    }


def _links(period: ReportPeriod, team: str) -> dict[str, str]:
    """Its page, and the CSV file of its lines."""
    ours = {"team": team} if team else {}
    days = {"from": f"{period.first}", "to": f"{period.after - DAY}"}
    if period.rhythm is Rhythm.MONTH:
        days = {"month": period.key}
    moments = {"from": f"{period.first}T00:00:00Z", "to": f"{period.after}T00:00:00Z"}
    return {
        "url": f"{settings.PUBLIC_URL}/costs/?{urlencode(days | ours)}",
        "csv_url": f"{settings.PUBLIC_URL}{EXPORT}?{urlencode(moments | ours)}",
    }
