"""Signal receivers that update quotas when teams or their budgets change."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import receiver

from costs.signals import budget_freed
from quotas.budget_claims import wake_poor
from quotas.cohorts import join
from teams.models import Team
from teams.signals import cohort_changed


@receiver(cohort_changed)
def derive_quotas(*, team: Team, left: str, now: datetime, **_future: Any) -> None:
    """Derive the team's quotas again when its cohort changes."""
    join(team=team, left=left, now=now)


@receiver(budget_freed)
def wake_what_waits_for_money(*, team: Team, now: datetime, **_future: Any) -> None:
    """A budget has more left: judge again what its team waits with, once the change is committed."""
    transaction.on_commit(partial(wake_poor, team.pk, now=now))
