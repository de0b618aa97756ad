"""Signal receivers that update quotas when teams change."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.dispatch import receiver

from quotas.cohorts import join
from teams.models import Team
from teams.signals import cohort_changed


@receiver(cohort_changed)
def derive_quotas(*, team: Team, left: str, now: datetime, **_future: Any) -> None:
    """Derive the team's quotas again when its cohort changes."""
    join(team=team, left=left, now=now)
