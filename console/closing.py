"""Commands of people that close a team and take it back, and what they see before. What then ends its work is `controller.closing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Count, Q

from controller.closing import CLOSE_TASK, WAITS, unended
from controller.wakeups import send_hint
from foundation.crashpoints import crash_point
from foundation.errors import Invalid
from foundation.http.etag import Versions
from quotas.ceilings import volumes_of
from quotas.changes import pools_changed
from quotas.queries import QuotaFigures, team_quotas
from teams import services
from teams.actors import Actor
from teams.models import ApiToken, SecretName, Team
from teams.signals import closing_asked
from workloads.kinds import WorkloadKind, kinds


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
    rows = unended(team).order_by().values_list("kind")
    counted = rows.annotate(waiting=Count("pk", filter=Q(phase__in=WAITS)), together=Count("pk"))
    counts = {kind: (waits, together - waits) for kind, waits, together in counted}
    others: dict[str, int] = {}
    answers: Any = closing_asked.send(sender=Team, team=team, now=now)
    for _, answer in answers:
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
        closing = services.begin_closing(
            actor=actor, team=team, reason=reason, now=now, expected_versions=expected_versions
        )
        transaction.on_commit(partial(crash_point, "closing-begun"))
        transaction.on_commit(partial(send_hint, CLOSE_TASK, {"team_id": str(closing.public_id)}))
    return closing


def reopen_team(
    *, team: Team, reason: str, actor: Actor, now: datetime, expected_versions: Versions | None = None
) -> Team:
    """Let a closed team work again, or stop closing it. Raises what `teams.services.reopen_team` does."""
    with transaction.atomic():
        opened = services.reopen_team(
            actor=actor, team=team, reason=reason, now=now, expected_versions=expected_versions
        )
        pools_changed(team=opened, now=now)
    return opened
