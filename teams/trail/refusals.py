"""Commands that were refused for who asked: in the audit trail, which a 403 would otherwise leave no trace in."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from django.db import DatabaseError
from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseBase

from foundation import clock
from foundation.http.middleware import GetResponse
from teams.actors import actor_of
from teams.audit import audit_event
from teams.models import Team
from teams.permissions import visible_teams
from teams.throttle import address_of
from teams.trail.sums import note

log = logging.getLogger(__name__)

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
ARGUMENT_LENGTH_MAX: Final = 64
# Of a route's arguments those that name an object; the others may be secrets, as that of a sign-in link is.
_OBJECTS: Final = ("slug", "username", "name")


class RefusalsMiddleware:
    """Records answers of 403 to methods that change something, summed as all is that a stranger may repeat."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code == 403 and request.method not in SAFE:
            try:
                _record(request, response)
            except DatabaseError:
                # The answer stands, and the log has it.
                log.warning("request.refusal_not_recorded", exc_info=True)
        return response


def _record(request: HttpRequest, response: HttpResponseBase) -> None:
    match, actor, now = request.resolver_match, actor_of(request), clock.now()
    route = match.view_name if match and match.view_name else "unknown"
    code, arguments = _code(response), _arguments(match.kwargs if match else {})
    team = _team(request, arguments)
    log.warning(
        "request.refused",
        extra={
            "actor": actor.label,
            "method": request.method,
            "route": route,
            "code": code,
            "arguments": arguments,
        },
    )
    event = audit_event(
        actor=actor,
        action="request.refuse",
        target_kind="route",
        target_id=route[:ARGUMENT_LENGTH_MAX],
        target_name=" ".join([str(request.method), route, *arguments.values()]),
        team=team,
        after={"method": request.method, "route": route, "code": code, **arguments},
        now=now,
    )
    who = actor.user.pk if actor.user else address_of(actor.ip)
    note(event, same=(who, request.method, route, code, *arguments.values()), now=now)


def _arguments(kwargs: dict[str, Any]) -> dict[str, str]:
    """The objects that the address names: UUIDs, and names of teams and users."""
    return {
        name: str(value)[:ARGUMENT_LENGTH_MAX]
        for name, value in kwargs.items()
        if name in _OBJECTS or name.endswith("_id")
    }


def _team(request: HttpRequest, arguments: dict[str, str]) -> Team | None:
    """The team of the address, if the user knows of it: then its leads read of the refusal."""
    slug = arguments.get("slug")
    return visible_teams(request.user).filter(slug=slug).first() if slug else None


def _code(response: HttpResponseBase) -> str:
    """The code of a problem document; "forbidden" of a page."""
    if isinstance(response, HttpResponse) and "json" in response.get("Content-Type", ""):
        try:
            return str(json.loads(response.content).get("code", "forbidden"))
        except (ValueError, AttributeError):
            pass
    return "forbidden"
