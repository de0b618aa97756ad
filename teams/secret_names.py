"""The only writer of the names of Secrets. Their values never come here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.db import transaction

from foundation.errors import Conflict
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import SecretName, Team

SECRETS_MAX: Final = 100
"""Of a team: each may hold 1 MiB, and all that the cluster knows has a few gigabytes of room together."""


def check_room(team: Team, name: str) -> None:
    """Conflict where another Secret would be one more than a team may have; those that it has may be written anew."""
    others = SecretName.objects.filter(team=team).exclude(name=name)
    if others[SECRETS_MAX - 1 :].exists():
        message = (
            f"Team {team.slug} has {SECRETS_MAX} secrets, which is the most; delete one that no run needs."
        )
        raise Conflict.of_field("name", message, code="too_many_secrets")


@transaction.atomic
def record_secret(
    *, team: Team, name: str, keys: Iterable[str], written_here: bool, actor: Actor, now: datetime
) -> SecretName:
    """The row of a Secret that was written, or that a user vouches for. Writing it again is an event of its own."""
    before = SecretName.objects.select_for_update().filter(team=team, name=name).first()
    row, _ = SecretName.objects.update_or_create(
        team=team,
        name=name,
        defaults={
            "keys": sorted(keys),
            "written_here": written_here,
            "updated_at": now,
            "updated_by": actor.user,
        },
        create_defaults={
            "keys": sorted(keys),
            "written_here": written_here,
            "created_at": now,
            "created_by": actor.user,
            "updated_at": now,
            "updated_by": actor.user,
        },
    )
    record_audit(
        actor=actor,
        action="secret.written" if written_here else "secret.registered",
        target_kind="secret",
        target_id=audit_id(name),
        team=team,
        before=None if before is None else _values(before),
        after=_values(row),
        now=now,
    )
    return row


@transaction.atomic
def forget_secret(*, secret: SecretName, actor: Actor, now: datetime) -> None:
    """Delete the row: nothing that is submitted from now on may name the Secret."""
    secret.delete()
    record_audit(
        actor=actor,
        action="secret.deleted",
        target_kind="secret",
        target_id=audit_id(secret.name),
        team=secret.team,
        before=_values(secret),
        now=now,
    )


def audit_id(name: str) -> str:
    """The name as far as an audit event has room for it; the whole one is among its values."""
    return name[:64]


def _values(row: SecretName) -> dict[str, object]:
    return {"name": row.name, "keys": list(row.keys), "written_here": row.written_here}
