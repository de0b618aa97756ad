"""What the targets of audit events are called: as the event says, or as they are called now.

Events have had their target's name since they keep it. Of older ones it stands in their values, or it is asked of the
package that owns such targets: it registers a lookup here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from teams.audit import name_in
from teams.models import ApiToken, AuditEvent, Team, User

Lookup = Callable[[Collection[UUID]], Mapping[UUID, str]]
"""The names of those that still exist, by public id; one query."""
_T = TypeVar("_T", bound=AuditEvent)

_lookups: dict[str, Lookup] = {}
_others: list[Lookup] = []


def register_names(lookup: Lookup, *kinds: str) -> None:
    """Have the targets of these kinds named by `lookup`; without a kind all that no other lookup is for."""
    if kinds:
        _lookups.update(dict.fromkeys(kinds, lookup))
    else:
        _others.append(lookup)


def with_names(events: Iterable[_T]) -> list[_T]:
    """The events, each with its `target_name`: at most one query a kind of target, and none for those that keep it."""
    listed = list(events)
    unnamed: dict[str, list[_T]] = defaultdict(list)
    for event in listed:
        event.target_name = event.target_name or name_in(event.after) or name_in(event.before)
        if not event.target_name:
            unnamed[event.target_kind if event.target_kind in _lookups else ""].append(event)
    for kind, those in unnamed.items():
        for lookup in [_lookups[kind]] if kind else _others:
            _name(those, lookup)
    return listed


def _name(events: Sequence[AuditEvent], lookup: Lookup) -> None:
    ids = {event.pk: public_id for event in events if (public_id := uuid_of(event.target_id))}
    names = lookup(set(ids.values())) if ids else {}
    for event in events:
        event.target_name = event.target_name or names.get(ids.get(event.pk) or UUID(int=0), "")


def uuid_of(text: str) -> UUID | None:
    """The UUID that the text is; None where it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None


def _users(ids: Collection[UUID]) -> Mapping[UUID, str]:
    return dict(User.objects.filter(public_id__in=ids).values_list("public_id", "username"))


def _teams(ids: Collection[UUID]) -> Mapping[UUID, str]:
    return dict(Team.objects.filter(public_id__in=ids).values_list("public_id", "slug"))


def _tokens(ids: Collection[UUID]) -> Mapping[UUID, str]:
    return dict(ApiToken.objects.filter(public_id__in=ids).values_list("public_id", "name"))


register_names(_users, "user")
register_names(_teams, "team")
register_names(_tokens, "token")
