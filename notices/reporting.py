"""Makes the notices of costs that are due: for each subscription one of each month or week, and no second one of it.

What was made is known by its row, which the database refuses twice: two who look at once, or one who dies, make no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from notices.cost_reports import report_of, teams_told
from notices.events import NoticeType, Topic
from notices.models import Delivery, NoticeSubscription, OutboxEvent
from notices.outbox import deliveries_of, readers_of
from notices.periods import ReportPeriod, Rhythm, due_period, period_of
from teams.models import User

TYPES: Final[Mapping[Rhythm, NoticeType]] = {
    Rhythm.MONTH: NoticeType.COSTS_MONTHLY,
    Rhythm.WEEK: NoticeType.COSTS_WEEKLY,
}
TOPICS: Final[Mapping[Rhythm, Topic]] = {
    Rhythm.MONTH: Topic.MONTHLY_COSTS,
    Rhythm.WEEK: Topic.WEEKLY_COSTS,
}
_Reports = dict[tuple[ReportPeriod, frozenset[int] | None], dict[str, Any]]


def tell_of_costs(*, now: datetime) -> int:
    """Make the notices of all reports that are due and were not made; how many. No transaction lasts for more than one
    subscription, and what is the same for several readers is summed once.
    """
    reports: _Reports = {}
    made = 0
    for period, subscription in _due(now):
        rows = _notices(subscription, period, reports, now)
        # All readers of a subscription at once: that one has a row says that all have.
        Delivery.objects.bulk_create(rows, ignore_conflicts=True)
        made += len(rows)
    return made


def again_for(delivery: Delivery, reader: User, *, now: datetime) -> dict[str, Any] | None:
    """The payload of a report of the same time, of those teams that the reader may see now; None where there is none."""
    teams = teams_told(delivery.subscription, reader)
    if teams == []:
        return None
    period = period_of(delivery.payload["data"]["id"])
    return {**delivery.payload, "data": report_of(teams, period, now=now)}


def _due(now: datetime) -> Iterator[tuple[ReportPeriod, NoticeSubscription]]:
    """Those that wanted it by the time at which it was due."""
    for rhythm, topic in TOPICS.items():
        wanted = NoticeSubscription.objects.filter(
            Q(user__isnull=True) | Q(user__is_active=True), enabled=True, topics__contains=[topic.value]
        )
        for zone in wanted.order_by().values_list("time_zone", flat=True).distinct():
            period = due_period(rhythm, now=now, time_zone=zone)
            if period is not None:
                of_zone = wanted.filter(time_zone=zone, created_at__lte=period.due_at(zone))
                for each in _untold(of_zone, period):
                    yield period, each


def _untold(wanted: QuerySet[NoticeSubscription], period: ReportPeriod) -> QuerySet[NoticeSubscription]:
    told = Delivery.objects.filter(subscription=OuterRef("pk"), once__startswith=f"{_once(period)}:")
    return wanted.exclude(Exists(told)).select_related("user", "team").order_by("pk")


def _once(period: ReportPeriod) -> str:
    return f"{TYPES[period.rhythm].value}:{period.key}"


def _notices(
    subscription: NoticeSubscription, period: ReportPeriod, reports: _Reports, now: datetime
) -> list[Delivery]:
    """One notice, or of a mail one for each who reads it; none where nobody does, or there is nothing that may be told."""
    teams = teams_told(subscription, subscription.user)
    if teams == []:
        return []
    told = TYPES[period.rhythm].value
    event = OutboxEvent(type=told, team=subscription.team, lane=told)
    rows = deliveries_of(subscription, readers_of([subscription]), event, {}, once=_once(period), now=now)
    if rows:
        key = (period, None if teams is None else frozenset(team.pk for team in teams))
        if key not in reports:
            reports[key] = report_of(teams, period, now=now)
        payload = {"type": told, "timestamp": now.isoformat(), "data": reports[key]}
        for row in rows:
            row.payload = payload
    return rows
