"""Tickets to the event stream: signed, good for a minute, with no more rights than the one who asked for it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.conf import settings

from foundation.errors import NotSignedIn
from foundation.tickets import make_ticket, read_ticket
from gateway.queries import Principal
from teams.models import ApiToken, User

PURPOSE: Final = "events"
_OF_TOKEN: Final = "token:"  # noqa: S105


def make_events_ticket(*, user: User, token: ApiToken | None, now: datetime) -> str:
    """A ticket for `/-/events/`; made with a token it ends and is bound as that token is."""
    resource = f"{_OF_TOKEN}{token.pk}" if token is not None else ""
    return make_ticket(user_id=user.pk, purpose=PURPOSE, resource=resource, now=now)


def read_events_ticket(ticket: str, *, now: datetime) -> Principal:
    """The one whom the ticket is for. Raises NotSignedIn if it is expired or not one of ours."""
    read = read_ticket(ticket, purpose=PURPOSE, now=now)
    kind, _, number = read.resource.partition(":")
    if read.resource and (kind != "token" or not number.isdigit()):
        raise NotSignedIn("The ticket is not one for events.")
    return Principal(user_id=read.user_id, token_id=int(number) if read.resource else None)


def events_url() -> str:
    """Where the events stream is; the ticket goes into its query as `ticket`."""
    return f"{settings.LIVE_URL}/-/events/"
