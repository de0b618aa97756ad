"""Tickets to `live`: what each is for, and how the live process reads and uses them up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from django.conf import settings

from foundation.errors import NotSignedIn
from teams import tickets
from teams.tickets import Ticket, read, spend
from workloads.models import Workload

__all__ = [
    "INVOKE", "PURPOSE", "Invoking", "Ticket", "events_url", "invoke_url", "invoking_of", "mint_events", "read", "spend",
]  # fmt: skip

PURPOSE: Final = "events"
INVOKE: Final = "invoke"
# What a path may be written with: what stands for itself there, and escapes.
_WRITTEN: Final = "/%:@!$&'()*+,;=~"


def mint_events(request: Any, *, now: datetime) -> str:
    """A ticket for `/-/events/`; it ends and is bound as the token or the session is that asks for it."""
    return tickets.mint(request, purpose=PURPOSE, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoking:
    """Which endpoint a ticket calls; its public id, as another may take the name."""

    team: str
    name: str
    endpoint: UUID


def invoke_url(request: Any, endpoint: Workload, *, path: str, now: datetime) -> str:
    """Where the live process passes one request on to the endpoint; `path` is as it was written. The address opens once."""
    chosen = json.dumps([endpoint.team.slug, endpoint.name, str(endpoint.public_id)])
    ticket = tickets.mint(request, purpose=INVOKE, resource=chosen, now=now)
    return f"{settings.LIVE_URL}/-/invoke/{ticket}/{quote(path, safe=_WRITTEN)}"


def invoking_of(resource: str) -> Invoking:
    """Which endpoint the resource of a ticket names. Raises NotSignedIn for one of another release."""
    try:
        team, name, endpoint = json.loads(resource)
        return Invoking(team=team, name=name, endpoint=UUID(endpoint))
    except (TypeError, ValueError) as error:
        raise NotSignedIn("The ticket is one of another release.") from error


def events_url() -> str:
    """Where the events stream is; the ticket goes into its query as `ticket`."""
    return f"{settings.LIVE_URL}/-/events/"
