"""Tickets: how a page or a REST answer lets its user in to the `live` process, without a cookie and without a bearer.

A ticket is a row, of which only the SHA-256 of its text is kept. It is good for a minute, opens once however many live
processes there are, and carries no more rights than the token or the session that asked for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Any, Final

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils.crypto import constant_time_compare, salted_hmac

from foundation.digits import whole_number
from foundation.errors import NotSignedIn
from teams.models import ApiToken, LiveTicket, User
from teams.tokens import digest

TTL_SECONDS: Final = 60
FORGOTTEN_AFTER: Final = timedelta(minutes=10)
"""Until then a ticket that is used or too old is told from one that never was."""
_TEXT_BYTES: Final = 32
_TAG_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Principal:
    """The one for whom a stream is open: a user, with no more rights than the token or the session that asked for it."""

    user_id: int
    token_id: int | None = None
    session_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Who was let in to what. What they may see must still be judged: rights may have changed since."""

    number: int
    principal: Principal
    resource: str


def mint(request: Any, *, purpose: str, resource: str = "", now: datetime) -> str:
    """A ticket for the one who asks, whether with a token or in a session; safe in a URL, and a secret until it is used.

    It ends as the token or the session does with which it was asked for.
    """
    token = getattr(request, "auth", None)
    token = token if isinstance(token, ApiToken) else None
    session = None if token is not None else getattr(request, "session", None)
    return mint_for(
        user=request.user,
        token=token,
        session_key=getattr(session, "session_key", None) or "",
        purpose=purpose,
        resource=resource,
        now=now,
    )


def mint_for(
    *,
    user: User,
    token: ApiToken | None = None,
    session_key: str = "",
    purpose: str,
    resource: str = "",
    now: datetime,
) -> str:
    """The same where there is no request."""
    text = _tagged(token_urlsafe(_TEXT_BYTES))
    LiveTicket.objects.create(
        digest=digest(text),
        user=user,
        token=token,
        session_key=session_key,
        purpose=purpose,
        resource=resource,
        expires_at=now + timedelta(seconds=TTL_SECONDS),
    )
    return text


def read(text: str, *, purpose: str, resource: str | None = None, now: datetime) -> Ticket:
    """What the ticket says; it is as good as before.

    Raises NotSignedIn if it is not ours, is for another purpose or resource, was used, or is too old.
    """
    row = None
    # One that was made up asks the database nothing, however many come.
    if constant_time_compare(text, _tagged(text[:-_TAG_LENGTH])):
        row = LiveTicket.objects.filter(digest=digest(text), purpose=purpose).first()
    if row is None:
        raise NotSignedIn("This ticket is not valid.", code="ticket_invalid")
    if row.used_at is not None:
        raise _used()
    if row.expires_at <= now:
        raise NotSignedIn("This ticket has expired; ask for a new one.", code="ticket_expired")
    if resource is not None and row.resource != resource:
        raise NotSignedIn("This ticket is for something else.", code="ticket_invalid")
    return Ticket(
        number=row.pk,
        principal=Principal(row.user_id, row.token_id, row.session_key),
        resource=row.resource,
    )


def spend(ticket: Ticket, *, now: datetime) -> None:
    """Use it up: of all who try, whichever process asks, one succeeds. Raises NotSignedIn for the others."""
    if LiveTicket.objects.filter(pk=ticket.number, used_at__isnull=True).update(used_at=now) != 1:
        raise _used()


def standing(principals: Collection[Principal], *, now: datetime) -> dict[Principal, User]:
    """Those who are still let in, each with a user of their own that is bound as the token is.

    Left out is whose account is inactive, whose token is revoked, expired or without the scope read, and whose session
    was signed out, has expired or is of an earlier password.
    """
    users = User.objects.in_bulk({each.user_id for each in principals})
    tokens = ApiToken.objects.in_bulk({each.token_id for each in principals if each.token_id is not None})
    sessions = _users_of({each.session_key for each in principals if each.session_key}, users, now=now)
    answer: dict[Principal, User] = {}
    for principal in principals:
        user, bound = users.get(principal.user_id), None
        if user is None or not user.is_active:
            continue
        if principal.token_id is not None:
            token = tokens.get(principal.token_id)
            if token is None or not _opens(token, user=user, now=now):
                continue
            bound = token.team_id
        if principal.session_key and sessions.get(principal.session_key) != user.pk:
            continue
        mine = copy(user)
        mine.bound_team_id = bound
        answer[principal] = mine
    return answer


def purge(*, now: datetime) -> int:
    """Delete tickets that have ended a while ago; returns how many."""
    deleted, _ = LiveTicket.objects.filter(expires_at__lt=now - FORGOTTEN_AFTER).delete()
    return deleted


def _users_of(keys: Collection[str], users: Mapping[int, User], *, now: datetime) -> dict[str, int]:
    """Whose the sessions are, by their keys: what `django.contrib.auth.get_user` says of them, for many at once."""
    found: dict[str, int] = {}
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=now) if keys else ()
    for row in rows:
        values = row.get_decoded()
        user = users.get(whole_number(str(values.get(SESSION_KEY, ""))) or 0)
        known = str(values.get(HASH_SESSION_KEY, ""))
        if user is not None and any(constant_time_compare(known, each) for each in _hashes(user)):
            found[row.session_key] = user.pk
    return found


def _hashes(user: User) -> Iterator[str]:
    yield user.get_session_auth_hash()
    yield from user.get_session_auth_fallback_hash()


def _opens(token: ApiToken, *, user: User, now: datetime) -> bool:
    return token.user_id == user.pk and token.is_live(now) and ApiToken.Scope.READ in token.scopes


def _tagged(text: str) -> str:
    """With what only the portal can say of it."""
    return text + salted_hmac("teams.tickets", text, algorithm="sha256").hexdigest()[:_TAG_LENGTH]


def _used() -> NotSignedIn:
    return NotSignedIn("This ticket was used; ask for a new one.", code="ticket_used")
