"""Trying an endpoint out: one small request on the portal's own origin, its answer made harmless there."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote
from uuid import UUID

from django.db import DatabaseError

from cluster.client import get_client
from cluster.errors import ProxyFailed
from cluster.proxy import Invocation, ProxyLimits, invoke
from cluster.proxy_rules import Target
from controller.routes import Route, route_of
from controller.services import call_for
from foundation import clock
from foundation.errors import FieldProblem, Malformed, NotFound, PortalError, TooLarge, Unavailable
from gateway.errors import BadGateway, EndpointNotLive, GatewayTimeout
from gateway.services import Bucket, Tally, add_request_counts
from teams.models import User
from teams.permissions import visible_teams
from workloads.models import Workload
from workloads.states import Phase

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 2**20
RESPONSE_BYTES_MAX: Final = 4 * 2**20
SECONDS_MAX: Final = 30.0
WAKING: Final = "endpoint_waking"
BUSY: Final = "too_many_tries"
PLACES: Final = 3
"""How many of a process's threads may wait for endpoints at the same time: pages need the others."""
PLACES_OF_TEAM: Final = 2
"""How many of these for the endpoints of one team: one that never answers leaves the others' a place."""
RETRY_SECONDS: Final = 5

# An answer on the origin of the session may neither act there, nor move the browser, nor ask for a password.
_RETURNED: Final = frozenset(
    {"content-type", "content-encoding", "content-language", "etag", "last-modified"}
)
# What a page of the portal adds for the portal, its CSRF token above all.
_NOT_SENT: Final = frozenset(
    {"x-csrftoken", "referer", "origin", "idempotency-key", "upgrade-insecure-requests"}
)
_NOT_SENT_PREFIXES: Final = ("hx-", "sec-")
_taken: Counter[str] = Counter()
"""Places by namespace; guarded by `_lock`."""
_lock = threading.Lock()
_SHOWN: Final = ("text/", "application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What the caller wants to send; `path` is decoded and begins with a slash."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def try_endpoint(*, user: User, public_id: UUID, call: Call) -> Invocation:
    """The endpoint's answer to one request, which counts like one through the gateway.

    Raises NotFound for a stranger, EndpointNotLive (with the code WAKING for one at zero replicas, which is called),
    Unavailable (with the code BUSY) where as many of this process wait for endpoints as may,
    TooLarge for a body above 1 MiB, BadGateway for an answer above 4 MiB or none at all, GatewayTimeout after 30 seconds
    or the endpoint's own limit. What is no replica's to answer now says when to ask again.
    """
    route = _route(user=user, public_id=public_id)
    if len(call.body) > REQUEST_BYTES_MAX:
        raise TooLarge(f"The request body is larger than {REQUEST_BYTES_MAX} bytes.")
    limits = ProxyLimits(
        request_bytes=REQUEST_BYTES_MAX,
        response_bytes=RESPONSE_BYTES_MAX,
        total_seconds=min(SECONDS_MAX, route.timeout_seconds),
    )
    with _place_of(route.namespace):
        try:
            answer = invoke(
                get_client(),
                Target(route.namespace, route.service, route.port),
                method=call.method,
                path=quote(call.path, safe="/"),
                query=call.query,
                headers=sent_headers(call.headers),
                body=call.body or None,
                limits=limits,
            )
        except ProxyFailed as error:
            _count(route, status=error.status, seconds=None)
            raise _error_of(error, route) from error
    _count(route, status=answer.status, seconds=answer.duration_seconds)
    if answer.truncated:
        message = f"The answer is larger than {RESPONSE_BYTES_MAX} bytes; the gateway passes up to 256 MiB."
        raise BadGateway(message, code="response_too_large")
    return answer


def _count(route: Route, *, status: int, seconds: float | None) -> None:
    """Adds it to what Analytics show; `seconds` of one that the endpoint answered. Never raises: it must cost no answer."""
    tally = Tally()
    tally.add(seconds or 0.0, asked=seconds is not None)
    bucket = Bucket.of(route.public_id, route.revision, status=status, now=clock.now())
    try:
        add_request_counts(tallies={bucket: tally})
    except DatabaseError:
        log.warning("try.uncounted", exc_info=True)


@contextmanager
def _place_of(namespace: str) -> Iterator[None]:
    """One of the places, inside. Raises Unavailable where all are taken, or as many as one team may have."""
    with _lock:
        if _taken.total() >= PLACES or _taken[namespace] >= PLACES_OF_TEAM:
            message = "As many requests wait for endpoints here as may; try again in a moment."
            raise Unavailable(message, code=BUSY, retry_after_seconds=RETRY_SECONDS)
        _taken[namespace] += 1
    try:
        yield
    finally:
        with _lock:
            _taken[namespace] -= 1
            if not _taken[namespace]:
                del _taken[namespace]


def harmless_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers with which an endpoint's answer is shown on the portal's origin."""
    kept = {name.title(): value for name, value in headers if name.lower() in _RETURNED}
    kept.setdefault("Content-Type", "application/octet-stream")
    shown = kept["Content-Type"].lower().startswith(_SHOWN)
    return {
        **kept,
        **({} if shown else {"Content-Disposition": "attachment"}),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def _route(*, user: User, public_id: UUID) -> Route:
    rows = Workload.objects.select_related("team").filter(team__in=visible_teams(user).values("pk"))
    workload = rows.filter(public_id=public_id, kind="endpoint").first()
    if workload is None:
        raise NotFound("There is no such endpoint, or it is not yours.")
    route = route_of(workload)
    if route is not None and route.wakes and workload.phase == Phase.RUNNING:
        # Also while it is up: its scaler does not see these requests, and what it takes down meanwhile comes back.
        call_for(public_id=public_id, now=clock.now())
    if route is not None and route.is_waking:
        raise EndpointNotLive(
            "The endpoint is at zero replicas. It has been called; try again in a moment.",
            code=WAKING,
            errors=_phase_facts(workload.phase, workload.reason),
            retry_after_seconds=RETRY_SECONDS,
        )
    if route is None or not route.is_live:
        raise EndpointNotLive(
            f"The endpoint is {workload.phase} ({workload.reason}), so nothing can answer now.",
            errors=_phase_facts(workload.phase, workload.reason),
            retry_after_seconds=RETRY_SECONDS,
        )
    return route


def sent_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that go on to an endpoint; Authorization, cookies and forwarding headers are dropped by the proxy itself."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _NOT_SENT and not name.lower().startswith(_NOT_SENT_PREFIXES)
    ]


def _phase_facts(phase: str, reason: str) -> tuple[FieldProblem, ...]:
    return (
        FieldProblem(field="phase", code=phase, message=f"The endpoint is {phase}."),
        FieldProblem(field="reason", code=reason, message=f"The reason is {reason}."),
    )


def _error_of(error: ProxyFailed, route: Route) -> PortalError:
    text, code = str(error), error.reason.replace("-", "_")
    message = f"{text[:1].upper()}{text[1:]}."
    if error.status == 503:
        again = max(1, round(error.retry_after or 1))
        facts = _phase_facts(route.phase, route.reason)
        return Unavailable(message, code=code, errors=facts, retry_after_seconds=again)
    return _ERRORS.get(error.status, BadGateway)(message, code=code)


_ERRORS: dict[int, type[PortalError]] = {
    400: Malformed,
    413: TooLarge,
    502: BadGateway,
    504: GatewayTimeout,
}
