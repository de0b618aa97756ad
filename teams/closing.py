"""The beginning and the end of closing a team, and taking it back. What ends its work in between is `controller.closing`.

A team with history is never deleted: its workloads, its ledger and its trail stay, and who could read them still can.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from foundation.errors import Conflict, Invalid, NotFound
from foundation.http.etag import Versions, check_version
from teams.actors import Actor
from teams.audit import record_audit
from teams.credentials import revoke_token
from teams.errors import TeamClosed
from teams.models import ApiToken, Team
from teams.signals import team_closed, team_closing

REASON_LENGTH_MAX = 1000


@transaction.atomic
def begin_closing(
    *, actor: Actor, team: Team, reason: str, now: datetime, expected_versions: Versions | None = None
) -> Team:
    """The team, which takes nothing new from now on; its own tokens open nothing any more.

    Raises TeamClosed where it is closed or being closed, Invalid without a reason, PreconditionFailed unless its version is
    expected.
    """
    told = _reason(reason)
    locked = _locked(team)
    check_version(expected=expected_versions, current=locked.version)
    if locked.closing_since is not None:
        state = "closed" if locked.closed_at else "being closed"
        raise TeamClosed(f"Team {locked.slug} is {state} already.")
    locked.closing_since, locked.closed_at = now, None
    locked.closed_by, locked.closing_reason = actor.user, told
    _save(locked)
    _audit("team.close", locked, {"state": "open"}, {"state": "closing"}, actor=actor, now=now, reason=told)
    for token in ApiToken.objects.filter(team=locked, revoked_at__isnull=True).order_by("pk"):
        revoke_token(actor=actor, token=token, now=now)
    team_closing.send(sender=Team, team=locked, actor=actor, now=now)
    return locked


def end_closing(*, team: Team, actor: Actor, now: datetime) -> None:
    """Write down that the last of the team has ended. The caller holds its row and has looked."""
    team.closed_at = now
    _save(team)
    _audit("team.closed", team, {"state": "closing"}, {"state": "closed"}, actor=actor, now=now)
    team_closed.send(sender=Team, team=team, now=now)


@transaction.atomic
def reopen_team(
    *, actor: Actor, team: Team, reason: str, now: datetime, expected_versions: Versions | None = None
) -> Team:
    """The team, which takes work again. What was ended stays ended: tokens, subscriptions and quota are given anew.

    Raises Conflict for a team that is open, Invalid without a reason, PreconditionFailed unless its version is expected.
    """
    told = _reason(reason)
    locked = _locked(team)
    check_version(expected=expected_versions, current=locked.version)
    if locked.closing_since is None:
        raise Conflict(f"Team {locked.slug} is not closed.", code="team_open")
    before = {"state": locked.state.value, "reason": locked.closing_reason}
    locked.closing_since = locked.closed_at = locked.closed_by = None
    locked.closing_reason = ""
    _save(locked)
    _audit("team.reopen", locked, before, {"state": "open"}, actor=actor, now=now, reason=told)
    return locked


def _reason(reason: str) -> str:
    told = reason.strip()
    if not told:
        raise Invalid.of_field("reason", "Say why; it is kept with the team.", code="required")
    if len(told) > REASON_LENGTH_MAX:
        raise Invalid.of_field("reason", f"At most {REASON_LENGTH_MAX} characters.", code="max_length")
    return told


def _locked(team: Team) -> Team:
    locked = Team.objects.select_for_update(no_key=True).filter(pk=team.pk).first()
    if locked is None:
        raise NotFound("This team is gone.")
    return locked


def _save(team: Team) -> None:
    team.version += 1
    team.save(update_fields=["closing_since", "closed_at", "closed_by", "closing_reason", "version"])


def _audit(
    action: str,
    team: Team,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> None:
    record_audit(
        actor=actor,
        action=action,
        target_kind="team",
        target_id=team.public_id,
        target_name=team.slug,
        team=team,
        before=before,
        after=after,
        reason=reason,
        now=now,
    )
