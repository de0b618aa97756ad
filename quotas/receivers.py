"""Signal receivers that update quotas when teams or their budgets change."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import receiver

from costs.signals import budget_freed
from quotas.cohorts import join
from quotas.counters import mark_due
from teams.models import Team
from teams.signals import cohort_changed
from workloads.models import Workload
from workloads.states import Phase, Reason


@receiver(cohort_changed)
def derive_quotas(*, team: Team, left: str, now: datetime, **_future: Any) -> None:
    """Derive the team's quotas again when its cohort changes."""
    join(team=team, left=left, now=now)


@receiver(budget_freed)
def wake_what_waits_for_money(*, team: Team, now: datetime, **_future: Any) -> None:
    """A budget has more left: judge again what its team waits with, once the change is committed."""
    transaction.on_commit(partial(wake_poor, team.pk, now=now))


def wake_poor(team_id: int, *, now: datetime) -> None:
    """Make the pools due in which the team waits for its budget. Outside any transaction: where this is lost, the pass that
    each pool with waiters has in a minute finds it.
    """
    waiting = Workload.objects.filter(
        team=team_id, phase=Phase.QUEUED.value, reason=Reason.WAITING_FOR_BUDGET.value, flavor__isnull=False
    )
    found = set(waiting.order_by().values_list("flavor", "capacity_type").distinct())
    for flavor_id, capacity_type in sorted(found):
        mark_due(flavor_id=flavor_id, capacity_type=capacity_type, now=now)
