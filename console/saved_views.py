"""Saving the filters of a list under a name, and taking them up again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from console.models import NAME_LENGTH_MAX, QUERY_LENGTH_MAX, SavedView
from foundation.errors import Invalid, NotFound
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import User

VIEWS_MAX: Final = 30
"""How many one person keeps of one list."""


def views_of(user: Any, kind: str) -> list[SavedView]:
    """The person's own views of that list, by name."""
    return list(SavedView.objects.filter(user=user.pk, kind=kind)[:VIEWS_MAX])


def save_view(*, actor: Actor, kind: str, name: str, query: str, now: datetime) -> SavedView:
    """Keep the filters under that name, in place of what it named before. Raises Invalid, naming the field."""
    name = " ".join(name.split())
    if not name or "\x00" in name:
        raise Invalid.of_field("name", "Give the view a name.", code="required")
    if len(name) > NAME_LENGTH_MAX:
        raise Invalid.of_field("name", f"A name has at most {NAME_LENGTH_MAX} characters.", code="too_long")
    if len(query) > QUERY_LENGTH_MAX or "\x00" in query:
        raise Invalid.of_field(
            "query", f"Filters have at most {QUERY_LENGTH_MAX} characters.", code="too_long"
        )
    with transaction.atomic():
        # One at a time for a person, who else could have more than the most.
        user = User.objects.select_for_update(no_key=True).get(pk=_person(actor).pk)
        mine = SavedView.objects.filter(user=user, kind=kind)
        before = mine.filter(name=name).first()
        if before is None and mine.count() >= VIEWS_MAX:
            message = f"You have {VIEWS_MAX} views of this list, the most: delete one first."
            raise Invalid.of_field("name", message, code="too_many")
        view = before or SavedView(user=user, kind=kind, name=name, created_at=now)
        view.query = query
        view.save()
        _record(view, "saved_view.save", actor, now, after={"name": name, "query": query})
    return view


def delete_view(*, actor: Actor, public_id: UUID, now: datetime) -> SavedView:
    """Forget it. NotFound for one of somebody else's."""
    with transaction.atomic():
        view = SavedView.objects.filter(user=_person(actor), public_id=public_id).first()
        if view is None:
            raise NotFound("You have no such view.")
        view.delete()
        _record(view, "saved_view.delete", actor, now, before={"name": view.name, "query": view.query})
    return view


def _person(actor: Actor) -> User:
    if actor.user is None:
        raise NotFound("Nobody keeps views but a person.")
    return actor.user


def _record(
    view: SavedView,
    action: str,
    actor: Actor,
    now: datetime,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    record_audit(
        actor=actor,
        action=action,
        target_kind="saved_view",
        target_id=view.public_id,
        now=now,
        before=before,
        after=after,
    )
