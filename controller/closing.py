"""Closing a team: its work is ended in order, and what it had goes back. Rows say how far it is, so that any process goes on.

First what waits, and what ends by itself, with its grace period; then, when none of that is left, what serves requests. A claim
goes when the last pod of its workload is gone, as ever. When nothing lives, waits or is counted any more, its quota goes back
and the team is closed. Nothing that people may still want to read is deleted: workloads, logs until they expire, the ledger,
volumes, secrets and the namespace stay. Two who go on at once do nothing twice: each step holds the rows that it is about.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Min, Q, QuerySet

from controller.services import cancel_many
from costs.models import UsageInterval
from foundation.crashpoints import crash_point
from foundation.models import PlatformSettings
from quotas.changes import give_back
from quotas.models import Claim, ClaimState
from teams.actors import Actor
from teams.models import Team
from teams.services import end_closing
from workloads.bulk.commands import lock_rows
from workloads.kinds import kinds
from workloads.models import Workload
from workloads.states import Desired, Phase

CLOSER: Final = Actor.system("closing")
CLOSE_TASK: Final = "controller.close_team"
BATCH: Final = 500
RUNS_TAKE_AT_MOST: Final = timedelta(minutes=10)
"""Beside their grace period: from then on endpoints end too, though a run on a node that is lost has not ended yet."""
WAITS: Final = (Phase.QUEUED.value, Phase.SUSPENDED.value)


def to_go_on_with() -> QuerySet[Team]:
    """Teams that are being closed, and closed ones with a workload that slipped in from a request as old as the closing."""
    slipped_in = Workload.objects.exclude(phase__in=Workload.FINAL_PHASES).filter(
        team__closed_at__isnull=False
    )
    unfinished = Q(closed_at__isnull=True) | Q(pk__in=slipped_in.values("team"))
    return Team.objects.filter(unfinished, closing_since__isnull=False).order_by("closing_since", "pk")


def oldest_under_way() -> datetime | None:
    """When the oldest closing began that has not ended; None where none is under way."""
    under_way = Team.objects.filter(closing_since__isnull=False, closed_at__isnull=True)
    began: datetime | None = under_way.aggregate(began=Min("closing_since"))["began"]
    return began


def go_on(*, team: Team, now: datetime) -> bool:
    """Do what can be done now to close the team; whether it is closed. To be repeated until it is."""
    team = Team.objects.get(pk=team.pk)
    if team.closing_since is None:
        return False
    live, by_itself = unended(team), Q(kind__in=[kind.name for kind in kinds() if kind.ends])
    _cancel(team, live.filter(phase__in=WAITS), now)
    _cancel(team, live.filter(by_itself), now)
    grace = timedelta(seconds=PlatformSettings.current().grace_seconds)
    if now >= team.closing_since + grace + RUNS_TAKE_AT_MOST or not live.filter(by_itself).exists():
        _cancel(team, live, now)
    if _holds_on(team):
        return False
    give_back(team=team, actor=CLOSER, now=now)
    crash_point("closing-quota-back")
    return _finish(team, now)


def unended(team: Team) -> QuerySet[Workload]:
    """The team's workloads that have not ended."""
    return Workload.objects.filter(team=team).exclude(phase__in=Workload.FINAL_PHASES)


def _cancel(team: Team, workloads: QuerySet[Workload], now: datetime) -> None:
    """Request the end of those of which nobody has yet, in transactions of a bounded size."""
    message = f"Team {team.slug} is closed: {team.closing_reason}"
    # It may be reopened meanwhile: what was not asked to end by then goes on.
    wanted = workloads.exclude(desired=Desired.CANCEL.value).filter(team__closing_since__isnull=False)
    while keys := list(wanted.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            locked = lock_rows(wanted.filter(pk__in=keys))
            cancel_many(workloads=locked, message=message, actor=CLOSER, now=now)
        crash_point("closing-cancelled")


def _holds_on(team: Team) -> bool:
    """Whether anything of the team lives, is claimed or is counted still."""
    claims = Claim.objects.filter(team=team).exclude(state=ClaimState.RELEASED)
    usage = UsageInterval.objects.filter(team=team, ended_at__isnull=True)
    return unended(team).exists() or claims.exists() or usage.exists()


def _finish(team: Team, now: datetime) -> bool:
    with transaction.atomic():
        # Waits for every transaction that has written a row of the team: what it wrote is seen below.
        held = Team.objects.select_for_update().get(pk=team.pk)
        if held.closing_since is None or _holds_on(held):
            return False
        if held.closed_at is None:
            end_closing(team=held, actor=CLOSER, now=now)
    return True
