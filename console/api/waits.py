"""`?wait_for=` of a run or an endpoint: `web` answers at once what holds already, and leads to `live` for what does not yet.

A request that waits must keep neither a thread of `web` nor a connection to the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter

from foundation.digits import whole_number
from foundation.errors import NotSignedIn
from foundation.http.query import one, refuse
from teams import tickets
from workloads.models import Workload

WAIT_FOR: Final = "wait_for"
TIMEOUT: Final = "timeout"
TIMEOUT_SECONDS_MAX: Final = 60
TIMEOUT_SECONDS: Final = 30
PURPOSE: Final = "wait"

Waits = Mapping[str, Callable[[Workload], bool]]
"""What can be waited for, each with whether it holds; what has ended is waited for no longer, whatever it was for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What is waited for, and which fields are answered then."""

    kind: str
    workload: str
    wait_for: str
    seconds: int
    fields: list[str]

    def holds(self, workload: Workload, waits: Waits) -> bool:
        return workload.is_final or waits[self.wait_for](workload)


def asked_wait(
    request: Any, waits: Waits, *, kind: str, public_id: UUID, fields: Collection[str]
) -> Wait | None:
    """The wait that the request asks for, None without one. Raises Malformed naming the parameter."""
    wait_for, seconds = one(request, WAIT_FOR), _seconds(request)
    if wait_for is None:
        if seconds is not None:
            raise refuse(TIMEOUT, f"says nothing without {WAIT_FOR}.")
        return None
    if wait_for not in waits:
        raise refuse(WAIT_FOR, f"must be one of {', '.join(waits)}.")
    return Wait(
        kind=kind,
        workload=str(public_id),
        wait_for=wait_for,
        seconds=seconds or TIMEOUT_SECONDS,
        fields=sorted(fields),
    )


def lead_to_live(request: Any, wait: Wait, *, now: datetime) -> HttpResponse:
    """307 to where the wait is held; a ticket of its own for each, as it opens once."""
    ticket = tickets.mint(request, purpose=PURPOSE, resource=json.dumps(asdict(wait)), now=now)
    url = f"{settings.LIVE_URL}/-/wait/?{urlencode({'ticket': ticket})}"
    return HttpResponse(status=307, headers={"Location": url, "Cache-Control": "no-store"})


def wait_of(resource: str) -> Wait:
    """What the ticket's resource asks for. Raises NotSignedIn for one that another release has made."""
    try:
        return Wait(**json.loads(resource))
    except (TypeError, ValueError) as error:
        raise NotSignedIn("The ticket is one of another release.") from error


def wait_parameter(waits: Waits) -> OpenApiParameter:
    return OpenApiParameter(
        WAIT_FOR,
        str,
        enum=list(waits),
        description="Answer once this holds, once it has ended, or after `timeout`: 307 to the live process, which answers.",
    )


TIMEOUT_PARAMETER = OpenApiParameter(
    TIMEOUT,
    {"type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX, "default": TIMEOUT_SECONDS},
    description="With `wait_for`: after so many seconds the answer is how things stand then.",
)


def _seconds(request: Any) -> int | None:
    raw = one(request, TIMEOUT)
    seconds = None if raw is None else whole_number(raw, digits=3)
    if raw is not None and (seconds is None or not 1 <= seconds <= TIMEOUT_SECONDS_MAX):
        raise refuse(TIMEOUT, f"must be a whole number from 1 to {TIMEOUT_SECONDS_MAX}.")
    return seconds
