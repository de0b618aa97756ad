"""The audit trail: one row a change, written in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from teams.actors import Actor
from teams.models import AuditEvent, Team


def record_audit(
    *,
    actor: Actor,
    action: str,
    target_kind: str,
    target_id: object,
    now: datetime,
    team: Team | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
) -> AuditEvent:
    """Append an event. `action` is `noun.verb`; `before` and `after` hold what changed, never a secret.

    Call it inside the transaction of the change, so that there is neither without the other.
    """
    return AuditEvent.objects.create(
        at=now,
        actor=actor.user,
        actor_label=actor.label,
        token=actor.token,
        ip=actor.ip,
        request_id=actor.request_id or "",
        action=action,
        target_kind=target_kind,
        target_id=str(target_id),
        team=team,
        team_slug=team.slug if team else "",
        before=_plain(before),
        after=_plain(after),
        reason=reason,
    )


def _plain(values: Mapping[str, Any] | None) -> Any:
    """JSON in which times, UUIDs and decimals are texts."""
    return None if values is None else json.loads(json.dumps(values, cls=DjangoJSONEncoder))
