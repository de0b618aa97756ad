"""What a person does with failures they have seen: nobody else's view changes, and no workload."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef

from foundation.errors import Conflict
from teams.models import User
from workloads.models import Dismissal, Workload
from workloads.states import Phase


def dismiss_failure(*, workload: Workload, user: User, now: datetime) -> None:
    """Show the failure to this person no more among what needs attention. Raises Conflict for what has not failed."""
    if workload.phase != Phase.FAILED:
        raise Conflict("It has not failed, or it runs again: there is nothing to dismiss.")
    seen = {"since": workload.since, "dismissed_at": now}
    Dismissal.objects.update_or_create(user=user, workload=workload, defaults=seen)


def restore_failure(*, workload: Workload, user: User) -> None:
    """Show it again."""
    Dismissal.objects.filter(user=user, workload=workload).delete()


def dismissed_by(user: User) -> Exists:
    """Of a query of workloads: whether the person has dismissed it as it is."""
    return Exists(Dismissal.objects.filter(user=user, workload=OuterRef("pk"), since=OuterRef("since")))
