"""Idempotency-Key on POST: a client that got no answer may ask again without doing it twice.

Same key and same body: the first answer again, with `Idempotency-Replayed: true`. Another body: 422. Still
in flight: 409. Kept for 24 hours. The key's row is written in the transaction of the service call, so a
crash leaves neither; a try that failed leaves none, and may be repeated with the same key.

A first answer is shown again to who might ask for it now: whoever left the team meanwhile is refused as anybody would be
that asks for the first time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.http import Http404, HttpResponse
from rest_framework.exceptions import APIException
from rest_framework.renderers import JSONRenderer

from foundation import clock
from foundation.errors import (
    Conflict,
    FieldProblem,
    Invalid,
    Malformed,
    NotAllowed,
    NotFound,
    NotSignedIn,
    PortalError,
)
from foundation.models import IdempotencyKey

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
KEPT_FOR = timedelta(hours=24)
IN_FLIGHT_AT_MOST = timedelta(minutes=5)
PURGE_BATCH_MAX = 10_000
_KEY = re.compile(r"\A[\x21-\x7e]{1,255}\Z")
_KEPT_HEADERS = ("Location", "ETag")
_WRITES = re.compile(
    r"\s*(?:INSERT|UPDATE|DELETE|MERGE|TRUNCATE|COPY|WITH\b.*?\b(?:INSERT|UPDATE|DELETE)\b)",
    re.IGNORECASE | re.DOTALL,
)

Method = Callable[..., Any]


def idempotent(*, store_body: bool = True, judge: Method | None = None) -> Callable[[Method], Method]:
    """Decorate a POST method of a DRF view.

    `store_body=False` is for answers that hold a secret: they are never stored, so asking again gives 409
    `answer_not_kept`. `judge` is for a method that must not run inside one transaction (it talks to the cluster): its
    row is committed first and marked done afterwards. Called with what the method is called with, `judge` raises what a caller without the
    right is answered; other methods are judged by themselves, up to the first row that they would change.
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def wrapped(view: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            key = _key(request)
            if key is None:
                return method(view, request, *args, **kwargs)
            row, call = _new_row(request, key), partial(method, view, request, *args, **kwargs)
            if judge is None:
                return _in_one_transaction(row, call, store_body=store_body)
            judged = partial(judge, request, *args, **kwargs)
            return _in_two_steps(row, call, judged, store_body=store_body)

        wrapped.honours_idempotency_key = True  # type: ignore[attr-defined]
        return wrapped

    return decorate


def purge_expired(*, now: datetime) -> int:
    """Delete keys older than 24 hours, a batch at a time; returns how many."""
    old = IdempotencyKey.objects.filter(created_at__lt=now - KEPT_FOR).values("pk")[:PURGE_BATCH_MAX]
    deleted, _ = IdempotencyKey.objects.filter(pk__in=old).delete()
    return deleted


def _in_one_transaction(row: IdempotencyKey, call: Callable[[], Any], *, store_body: bool) -> Any:
    with transaction.atomic():
        if not _try_lock(row):
            raise _in_flight()
        known = _known(row)
        if known is not None:
            return _replay(known, row, partial(_judge, call))
        row.save()
        response = call()
        _finish(row, response, store_body=store_body)
        return response


def _in_two_steps(
    row: IdempotencyKey, call: Callable[[], Any], judge: Callable[[], None], *, store_body: bool
) -> Any:
    with transaction.atomic():
        if not _try_lock(row):
            raise _in_flight()
        known = _known(row)
        if known is not None:
            return _replay(known, row, judge)
        row.save()
    try:
        response = call()
    except BaseException:
        row.delete()
        raise
    _finish(row, response, store_body=store_body)
    return response


def _key(request: Any) -> str | None:
    raw: str | None = request.headers.get(HEADER)
    if raw is None:
        return None
    if not _KEY.match(raw):
        problem = FieldProblem(
            field=HEADER, code="invalid", message="1 to 255 printable ASCII characters without spaces."
        )
        raise Malformed(f"{HEADER}: {problem.message}", errors=(problem,))
    return raw


def _new_row(request: Any, key: str) -> IdempotencyKey:
    path = request.get_full_path()
    body = json.dumps(request.data, sort_keys=True, separators=(",", ":"))
    fingerprint = hashlib.sha256(f"{request.method}\n{path}\n{body}".encode()).hexdigest()
    return IdempotencyKey(
        principal=_principal(request.user),
        key=key,
        fingerprint=fingerprint,
        method=request.method,
        path=path[:2000],
        created_at=clock.now(),
    )


def _principal(user: Any) -> str:
    """Whose key it is. A token of one team must not be given the answer of a key that was used without it."""
    team = getattr(user, "bound_team_id", None)
    return f"user:{user.pk}" if team is None else f"user:{user.pk}:team:{team}"


def _try_lock(row: IdempotencyKey) -> bool:
    """A lock for this key until the transaction ends: a request without it is second, and is answered so at once."""
    digest = hashlib.sha256(f"idempotency\n{row.principal}\n{row.key}".encode()).digest()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [int.from_bytes(digest[:8], signed=True)])
        return bool(cursor.fetchone()[0])


def _known(row: IdempotencyKey) -> IdempotencyKey | None:
    """The row of an earlier request that still counts."""
    known = IdempotencyKey.objects.filter(principal=row.principal, key=row.key).first()
    if known is None:
        return None
    done = known.state == IdempotencyKey.State.DONE
    if row.created_at - known.created_at > (KEPT_FOR if done else IN_FLIGHT_AT_MOST):
        known.delete()
        return None
    return known


class _WouldWrite(BaseException):
    """What is asked for would be carried out. No `except Exception` on the way takes it for a failure."""


def _judge(call: Callable[[], Any]) -> None:
    """Raise what the caller would be refused with who asked for this now for the first time; changes nothing.

    Whatever else would come of it is no matter of rights: that it was done before is why it is asked for again.
    """
    refused = (NotSignedIn, NotAllowed, NotFound, PermissionDenied, Http404)
    try:
        with transaction.atomic(), connection.execute_wrapper(_stop_at_a_write):
            call()
            transaction.set_rollback(True)
    except refused:
        raise
    except (_WouldWrite, PortalError, APIException):
        return


def _stop_at_a_write(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    if _WRITES.match(sql):
        raise _WouldWrite
    return execute(sql, *rest)


def _replay(known: IdempotencyKey, row: IdempotencyKey, judge: Callable[[], None]) -> HttpResponse:
    if known.fingerprint != row.fingerprint:
        message = "This key was used before with another request."
        raise Invalid.of_field(HEADER, message, code="key_reused")
    if known.state == IdempotencyKey.State.IN_FLIGHT:
        raise _in_flight()
    judge()
    if known.body is None:
        raise Conflict(
            "This request was carried out before. Its answer held a secret, which is shown once and not kept.",
            code="answer_not_kept",
        )
    headers = {**known.headers, REPLAYED_HEADER: "true"}
    return HttpResponse(
        bytes(known.body), status=known.status, content_type="application/json", headers=headers
    )


def _finish(row: IdempotencyKey, response: Any, *, store_body: bool) -> None:
    row.state = IdempotencyKey.State.DONE
    row.status = response.status_code
    row.headers = {name: response[name] for name in _KEPT_HEADERS if response.has_header(name)}
    row.body = _body(response) if store_body else None
    row.save(update_fields=["state", "status", "headers", "body"])


def _body(response: Any) -> bytes:
    if hasattr(response, "data"):
        return JSONRenderer().render(response.data) if response.data is not None else b""
    return bytes(response.content)


def _in_flight() -> Conflict:
    return Conflict("A request with this Idempotency-Key is still in flight.", code="in_flight")
