"""Signal receivers: what happens is written to the outbox, in the transaction in which it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.dispatch import receiver

from budgets.signals import budget_told
from costs.models import BudgetPeriod
from notices.events import NoticeType
from notices.models import NoticeSubscription
from notices.outbox import write_alert, write_budget, write_decision, write_moves, write_policy
from notices.services import switch_off
from quotas.models import QuotaRequest
from quotas.requests import request_decided
from teams.models import Team
from teams.signals import closing_asked, team_closed
from telemetry.models import Alert
from telemetry.signals import alert_closed, alert_opened, idle_policy_stopped, idle_policy_warned
from workloads.models import Workload
from workloads.signals import PhaseMove, moved


@receiver(moved)
def note_moves(*, moves: Sequence[PhaseMove], now: datetime, **_future: Any) -> None:
    """Workloads have moved."""
    write_moves(moves, now=now)


@receiver(request_decided)
def note_decision(*, request: QuotaRequest, now: datetime, **_future: Any) -> None:
    """A request for quota is decided."""
    write_decision(request, now=now)


@receiver([alert_opened, alert_closed])
def note_alert(*, alert: Alert, **_future: Any) -> None:
    """A rule has begun to hold of the GPUs of a workload, or holds no more."""
    write_alert(alert)


@receiver(idle_policy_warned)
def note_warning(*, workload: Workload, message: str, now: datetime, **_future: Any) -> None:
    """The idle policy is about to stop a run."""
    write_policy(workload, NoticeType.IDLE_WARNED, message=message, now=now)


@receiver(idle_policy_stopped)
def note_stop(*, workload: Workload, message: str, now: datetime, **_future: Any) -> None:
    """The idle policy has stopped a run."""
    write_policy(workload, NoticeType.IDLE_STOPPED, message=message, now=now)


@receiver(team_closed)
def switch_off_subscriptions(*, team: Team, now: datetime, **_future: Any) -> None:
    """Nothing of the team happens any more."""
    switch_off(team=team, because=f"Team {team.slug} is closed.", now=now)


@receiver(closing_asked)
def subscriptions_on(*, team: Team, **_future: Any) -> Mapping[str, int]:
    """Subscriptions that closing the team would switch off."""
    return {"subscriptions": NoticeSubscription.objects.filter(team=team, enabled=True).count()}


@receiver(budget_told)
def note_budget(*, period: BudgetPeriod, event: str, message: str, now: datetime, **_future: Any) -> None:
    """Something is to be told of a team's budget."""
    write_budget(period, NoticeType(f"budget.{event}"), message=message, now=now)
