"""Questions about idle holds and alerts; nothing here writes, and nothing asks Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet

from costs.queries import rate_now, spans_by_card
from foundation.errors import NotFound
from foundation.http.etag import version_of
from teams.permissions import of_visible_teams, visible_teams
from telemetry.models import Alert, AlertRule, GpuLook, IdleHold
from telemetry.rules import DEFAULTS, GpuRule

HOLDS_MAX: Final = 500


def rules_in_force() -> tuple[GpuRule, ...]:
    """All rules, as they were changed; also those that are off."""
    changed = {row.name: row for row in AlertRule.objects.all()}
    return tuple(rule_by(changed.get(rule.name), rule) for rule in DEFAULTS)


def rule_by(row: AlertRule | None, rule: GpuRule) -> GpuRule:
    """The rule as the row has changed it."""
    if row is None:
        return rule
    return replace(
        rule,
        threshold=row.threshold,
        window_minutes=row.window_minutes,
        kinds=tuple(row.kinds),
        teams=tuple(row.teams),
        enabled=row.enabled,
    )


def rule_in_force(name: str) -> GpuRule:
    """One rule, as it was changed. Raises NotFound."""
    rule = next((each for each in DEFAULTS if each.name == name), None)
    if rule is None:
        raise NotFound("There is no such rule.")
    return rule_by(AlertRule.objects.filter(name=name).first(), rule)


def row_of(rule: GpuRule) -> AlertRule:
    """What would be stored of it."""
    return AlertRule(
        name=rule.name,
        threshold=float(rule.threshold),
        window_minutes=rule.window_minutes,
        kinds=sorted(rule.kinds),
        teams=sorted(rule.teams),
        enabled=rule.enabled,
    )


def version_of_rule(rule: GpuRule) -> str:
    """By what it says: the same whether it is stored or as it comes."""
    return version_of(row_of(rule))


def rules_shown_to(user: Any) -> list[GpuRule]:
    """Those that are about a team that the user may know of; of the teams of their scope only such ones are named."""
    rules = rules_in_force()
    named = {slug for rule in rules for slug in rule.teams}
    seen = set(visible_teams(user).filter(slug__in=named).values_list("slug", flat=True)) if named else named
    shown = (replace(rule, teams=tuple(slug for slug in rule.teams if slug in seen)) for rule in rules)
    return [mine for rule, mine in zip(rules, shown, strict=True) if mine.teams or not rule.teams]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedHold:
    """An idle hold with what it costs."""

    hold: IdleHold
    rate_per_hour: int | None
    """Micro-USD; None without a price."""
    idle_seconds: int

    @property
    def memory_words(self) -> str:
        """Such as "19.5 of 39.1 GiB"."""
        used, total = self.hold.memory_used_mib or 0, self.hold.memory_total_mib
        whole = "" if total is None else f" of {total / 1024:.1f}"
        return f"{used / 1024:.1f}{whole} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleList:
    """Idle holds of the teams that somebody may see, the longest first."""

    holds: Sequence[PricedHold]
    complete: bool
    rate_per_hour: int
    """Micro-USD of all that have a price."""
    looked_at: datetime | None
    answered_at: datetime | None
    unknown_because: str


NEVER_LOOKED: Final = "Nobody has looked yet: the worker does so once a minute."


def visible_holds(user: Any) -> QuerySet[IdleHold]:
    """Idle holds of the teams that somebody may see."""
    return IdleHold.objects.filter(of_visible_teams(user))


def idle_list(holds_shown: QuerySet[IdleHold], *, now: datetime) -> IdleList:
    """What of these is held idle, as it was last seen; in three queries."""
    rows = holds_shown.select_related("pod", "team", "workload__owner", "workload__flavor", "workload__team")
    found = list(rows.order_by("since", "id")[: HOLDS_MAX + 1])
    prices = spans_by_card()
    holds = [
        PricedHold(
            hold=hold,
            rate_per_hour=rate_now(hold.workload.flavor, hold.workload.capacity_type, 1, prices, now),
            idle_seconds=max(0, int((now - hold.since).total_seconds())),
        )
        for hold in found[:HOLDS_MAX]
    ]
    look = GpuLook.objects.first()
    return IdleList(
        holds=holds,
        complete=len(found) <= HOLDS_MAX,
        rate_per_hour=sum(each.rate_per_hour or 0 for each in holds),
        looked_at=look.looked_at if look else None,
        answered_at=look.answered_at if look else None,
        unknown_because=look.unknown_because if look else NEVER_LOOKED,
    )


def visible_alerts(user: Any) -> QuerySet[Alert]:
    """Alerts of the teams that somebody may see, with what is shown of them."""
    rows = Alert.objects.filter(of_visible_teams(user))
    return rows.select_related("team", "workload__owner", "workload__team")
