"""The audit trail: one row a change, written in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from teams.actors import Actor
from teams.models import TARGET_NAME_LENGTH_MAX, AuditEvent, Team

AUDIT_BATCH = 500
# A user is called by the username, a team by its slug, whatever else their values hold.
_NAMES = ("username", "slug", "name")


def audit_event(
    *,
    actor: Actor,
    action: str,
    target_kind: str,
    target_id: object,
    now: datetime,
    target_name: str = "",
    team: Team | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
) -> AuditEvent:
    """An event that is not stored yet. `action` is `noun.verb`; `before` and `after` hold what changed, never a secret.

    `target_name` is what people call the target; without it what `after` or `before` have as its name.
    """
    return AuditEvent(
        at=now,
        actor=actor.user,
        actor_label=actor.label,
        token=actor.token,
        ip=actor.ip,
        request_id=actor.request_id or "",
        action=action,
        target_kind=target_kind,
        target_id=str(target_id),
        target_name=(target_name or name_in(after) or name_in(before))[:TARGET_NAME_LENGTH_MAX],
        team=team,
        team_slug=team.slug if team else "",
        before=_plain(before),
        after=_plain(after),
        reason=reason,
    )


def record_audit(
    *,
    actor: Actor,
    action: str,
    target_kind: str,
    target_id: object,
    now: datetime,
    target_name: str = "",
    team: Team | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
) -> AuditEvent:
    """Append the event that `audit_event` makes of the same values.

    Call it inside the transaction of the change, so that there is neither without the other.
    """
    event = audit_event(
        actor=actor,
        action=action,
        target_kind=target_kind,
        target_id=target_id,
        target_name=target_name,
        team=team,
        before=before,
        after=after,
        reason=reason,
        now=now,
    )
    event.save(force_insert=True)
    return event


def record_audits(events: Sequence[AuditEvent]) -> None:
    """Append events, inside the transaction of their changes."""
    AuditEvent.objects.bulk_create(events, batch_size=AUDIT_BATCH)


def name_in(values: Mapping[str, Any] | None) -> str:
    """What the values of a target call it; empty where they do not say."""
    found = (values.get(key) for key in _NAMES) if values else ()
    return next((str(name) for name in found if isinstance(name, str) and name), "")


def _plain(values: Mapping[str, Any] | None) -> Any:
    """JSON in which times, UUIDs and decimals are texts."""
    return None if values is None else json.loads(json.dumps(values, cls=DjangoJSONEncoder))
