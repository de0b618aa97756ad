"""Short-lived signed tickets: how a page or a REST answer lets its user in to the `live` process, without a cookie."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.core import signing

from foundation.errors import NotSignedIn

TTL_SECONDS: Final = 60
_SALT: Final = "portal.ticket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A user and what they were let in to. What they may see must still be checked: rights may have changed since."""

    user_id: int
    purpose: str
    resource: str


def make_ticket(
    *, user_id: int, purpose: str, resource: str, now: datetime, ttl_seconds: int = TTL_SECONDS
) -> str:
    """A ticket for `resource` (a public id, say), good for `ttl_seconds`; safe in a URL. It is a secret until then."""
    ends = int(now.timestamp()) + ttl_seconds
    return signing.dumps([user_id, resource, ends], salt=f"{_SALT}.{purpose}")


def read_ticket(ticket: str, *, purpose: str, now: datetime, resource: str | None = None) -> Ticket:
    """What the ticket says. Raises NotSignedIn if it is not ours, is for another purpose or resource, or is too old."""
    try:
        content = signing.loads(ticket, salt=f"{_SALT}.{purpose}")
    except signing.BadSignature:
        raise NotSignedIn("This ticket is not valid.", code="ticket_invalid") from None
    user_id, named, ends = content
    if ends <= now.timestamp():
        raise NotSignedIn("This ticket has expired; ask for a new one.", code="ticket_expired")
    if resource is not None and named != resource:
        raise NotSignedIn("This ticket is for something else.", code="ticket_invalid")
    return Ticket(user_id=user_id, purpose=purpose, resource=named)
