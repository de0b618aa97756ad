"""Closing a team: its work is ended in order, and what it had goes back. Rows say how far it is, so that any process goes on.

First what waits, and what ends by itself, with its grace period; then, when none of that is left, what serves requests. A claim
goes when the last pod of its workload is gone, as ever. When nothing lives, waits or is counted any more, its quota goes back
and the team is closed. Nothing that people may still want to read is deleted: workloads, logs until they expire, the ledger,
volumes, secrets and the namespace stay. Two who go on at once do nothing twice: each step holds the rows that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from controller.services import cancel_many
from controller.wakeups import send_hint
from costs.models import UsageInterval
from foundation.crashpoints import crash_point
from foundation.errors import Invalid
from foundation.http.etag import Versions
from foundation.models import PlatformSettings
from quotas.ceilings import volumes_of
from quotas.closing import give_back, pools_changed
from quotas.models import Claim, ClaimState
from quotas.queries import QuotaFigures, team_quotas
from teams.actors import Actor
from teams.closing import begin_closing, end_closing
from teams.closing import reopen_team as reopen
from teams.models import ApiToken, SecretName, Team
from teams.signals import closing_asked
from workloads.bulk.commands import lock_rows
from workloads.kinds import WorkloadKind, kinds
from workloads.models import Workload
from workloads.states import Desired, Phase

CLOSER: Final = Actor.system("closing")
CLOSE_TASK: Final = "controller.close_team"
BATCH: Final = 500
RUNS_TAKE_AT_MOST: Final = timedelta(minutes=10)
"""Beside their grace period: from then on endpoints end too, though a run on a node that is lost has not ended yet."""
WAITS: Final = (Phase.QUEUED.value, Phase.SUSPENDED.value)


@dataclass(frozen=True, slots=True)
class Ending:
    """How many workloads of a kind have not ended: those that `waits`, and the others, which hold claims."""

    kind: WorkloadKind
    waits: int
    live: int


@dataclass(frozen=True, slots=True)
class ClosingSeen:
    """What closing the team ends or, once it has begun, still has to end; and what it keeps."""

    team: Team
    workloads: tuple[Ending, ...]
    tokens: int
    others: Mapping[str, int]
    """What other apps end, by name."""
    quotas: tuple[QuotaFigures, ...]
    """Those above 0, with what others of the cohort have borrowed of them."""
    volumes: int
    secrets: int

    @property
    def ends(self) -> int:
        """Workloads that have not ended."""
        return sum(each.waits + each.live for each in self.workloads)


def closing_seen(*, team: Team, now: datetime) -> ClosingSeen:
    """What there is to end of the team now."""
    rows = _unended(team).order_by().values_list("kind")
    counted = rows.annotate(waits=Count("pk", filter=Q(phase__in=WAITS)), together=Count("pk"))
    counts = {kind: (waits, together - waits) for kind, waits, together in counted}
    others: dict[str, int] = {}
    for _, answer in closing_asked.send(sender=Team, team=team, now=now):
        others |= answer
    return ClosingSeen(
        team=team,
        workloads=tuple(Ending(kind, *counts.get(kind.name, (0, 0))) for kind in kinds()),
        tokens=ApiToken.objects.filter(team=team, revoked_at__isnull=True, expires_at__gt=now).count(),
        others=others,
        quotas=tuple(figures for figures in team_quotas(team) if figures.quota.nominal),
        volumes=volumes_of([team]).get(team.namespace_name, (0, 0))[0],
        secrets=SecretName.objects.filter(team=team).count(),
    )


def close_team(
    *,
    team: Team,
    confirm: str,
    reason: str,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> Team:
    """Begin to close the team; the rest is done by whoever looks next. `confirm` is the team's slug once more.

    Raises Invalid without a reason or where `confirm` is another text, TeamClosed where it is closed or being closed,
    PreconditionFailed unless its version is expected.
    """
    if confirm != team.slug:
        message = f"Type {team.slug} to confirm that all work of this team ends."
        raise Invalid.of_field("confirm", message, code="not_confirmed")
    with transaction.atomic():
        closing = begin_closing(
            actor=actor, team=team, reason=reason, now=now, expected_versions=expected_versions
        )
        transaction.on_commit(partial(crash_point, "closing-begun"))
        transaction.on_commit(partial(send_hint, CLOSE_TASK, {"team_id": str(closing.public_id)}))
    return closing


def reopen_team(
    *, team: Team, reason: str, actor: Actor, now: datetime, expected_versions: Versions | None = None
) -> Team:
    """Let a closed team work again, or stop closing it. Raises what `teams.closing.reopen_team` does."""
    with transaction.atomic():
        opened = reopen(actor=actor, team=team, reason=reason, now=now, expected_versions=expected_versions)
        pools_changed(team=opened, now=now)
    return opened


def to_go_on_with() -> QuerySet[Team]:
    """Teams that are being closed, and closed ones with a workload that slipped in from a request as old as the closing."""
    slipped_in = Workload.objects.exclude(phase__in=Workload.FINAL_PHASES).filter(
        team__closed_at__isnull=False
    )
    unfinished = Q(closed_at__isnull=True) | Q(pk__in=slipped_in.values("team"))
    return Team.objects.filter(unfinished, closing_since__isnull=False).order_by("closing_since", "pk")


def go_on(*, team: Team, now: datetime) -> bool:
    """Do what can be done now to close the team; whether it is closed. To be repeated until it is."""
    team = Team.objects.get(pk=team.pk)
    if team.closing_since is None:
        return False
    live, by_itself = _unended(team), Q(kind__in=[kind.name for kind in kinds() if kind.ends])
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


def _unended(team: Team) -> QuerySet[Workload]:
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
    return _unended(team).exists() or claims.exists() or usage.exists()


def _finish(team: Team, now: datetime) -> bool:
    with transaction.atomic():
        # Waits for every transaction that has written a row of the team: what it wrote is seen below.
        held = Team.objects.select_for_update().get(pk=team.pk)
        if held.closing_since is None or _holds_on(held):
            return False
        if held.closed_at is None:
            end_closing(team=held, actor=CLOSER, now=now)
    return True
