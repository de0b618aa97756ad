"""Signal receivers that update quotas when teams or their budgets change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import receiver

from budgets.signals import budget_freed
from quotas.ceilings import volumes_of
from quotas.changes import pools_changed
from quotas.cohorts import join
from quotas.counters import mark_due
from quotas.models import QuotaRequest
from quotas.requests import deny_pending
from teams.actors import Actor
from teams.errors import TeamInUse
from teams.models import Team
from teams.signals import closing_asked, cohort_changed, team_closing, team_deleting
from workloads.models import Workload
from workloads.states import Phase, Reason


@receiver(cohort_changed)
def derive_quotas(*, team: Team, left: str, now: datetime, **_future: Any) -> None:
    """Derive the team's quotas again when its cohort changes."""
    join(team=team, left=left, now=now)


@receiver(team_closing)
def refuse_requests(*, team: Team, actor: Actor, now: datetime, **_future: Any) -> None:
    """A team that is closed gets no more quota, and its queue admits nothing."""
    deny_pending(team=team, comment=f"Team {team.slug} is being closed.", actor=actor, now=now)
    pools_changed(team=team, now=now)


@receiver(closing_asked)
def pending_requests(*, team: Team, **_future: Any) -> Mapping[str, int]:
    """Requests for quota that closing the team would refuse."""
    return {
        "quota_requests": QuotaRequest.objects.filter(team=team, state=QuotaRequest.State.PENDING).count()
    }


@receiver(team_deleting)
def keep_volumes(*, team: Team, **_future: Any) -> None:
    """Volumes hold data: a team that has some is not deleted from over them."""
    count, _ = volumes_of([team]).get(team.namespace_name, (0, 0))
    if count:
        raise TeamInUse(
            f"The namespace {team.namespace_name} has {count} volume{'s' * (count > 1)}, whose data nobody would know of. "
            f"Delete {'them' if count > 1 else 'it'} first, or close the team."
        )


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
