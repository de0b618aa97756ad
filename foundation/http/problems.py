"""Every error below /api/ as one shape: RFC 9457 `application/problem+json`.

Body: type, title, status, detail, code, request_id, errors[{field, code, message}]. Nothing internal ever
gets in: an unexpected exception is logged and answered as a bare 500.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core import exceptions as django_errors
from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect, UnreadablePostError
from django.urls import resolve
from django.views import defaults
from django.views.csrf import csrf_failure as django_csrf_failure
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions as drf_errors
from rest_framework.views import set_rollback

from foundation import database
from foundation.errors import FieldProblem, PortalError, RateLimited, TooLarge, Unavailable
from foundation.errors import NotFound as PortalNotFound
from foundation.http import rates
from foundation.http.context import is_api, request_id_of

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
TITLES = {
    400: "Malformed request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Too late",
    413: "Too large",
    415: "Unsupported media type",
    422: "Invalid values",
    429: "Too many requests",
    431: "Headers too large",
    500: "Something went wrong",
    503: "Not available right now",
}
CHALLENGE = {"WWW-Authenticate": "Bearer"}
DATABASE_AWAY = "The portal's database does not answer. Nothing is lost; try again in a few seconds."
ERRORS_MAX = 100
"""Of a problem document; its detail says how many there are in all."""
UNEXPECTED = "The portal failed to answer. It has been logged under the request id."


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem document, and the headers that go with it."""

    status: int
    code: str
    detail: str
    title: str = ""
    errors: tuple[FieldProblem, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)

    def body(self, *, request_id: str) -> dict[str, Any]:
        return {
            "type": f"urn:ml-portal:problem:{self.code}",
            "title": self.title or TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
            "errors": [
                {"field": error.field, "code": error.code, "message": error.message} for error in self.errors
            ],
            **self.members,
        }


def respond(problem: Problem, request: HttpRequest) -> HttpResponse:
    """The response of a problem."""
    body = json.dumps(problem.body(request_id=request_id_of(request)), ensure_ascii=False)
    response = HttpResponse(
        body.encode("utf-8", "replace"),
        status=problem.status,
        content_type=CONTENT_TYPE,
        headers=dict(problem.headers),
    )
    response["Cache-Control"] = "no-store"
    return response


def handle(exception: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """DRF's EXCEPTION_HANDLER: a problem for anything that a view raised."""
    request = context["request"]
    plain_request: HttpRequest = getattr(request, "_request", request)
    problem = problem_of(exception)
    if problem is not None and problem.status == 401 and not getattr(plain_request, "is_counted", False):
        # Only now is it known that nobody is asking whom a count of their own would stop.
        wait = rates.count_unknown(plain_request)
        problem = too_many(wait) if wait else problem
    if problem is None:
        log.error("request.failed", exc_info=exception, extra={"path": plain_request.path})
        got_request_exception.send(sender=type(context.get("view")), request=plain_request)
        problem = Problem(status=500, code="internal_error", detail=UNEXPECTED)
    set_rollback()
    response = respond(problem, plain_request)
    response.exception = True  # type: ignore[attr-defined]
    return response


def problem_of(exception: Exception) -> Problem | None:
    """The problem that an exception stands for; None when it is unexpected."""
    if isinstance(exception, PortalError):
        return _of_portal_error(exception)
    if isinstance(exception, drf_errors.APIException):
        return _of_api_exception(exception)
    if isinstance(exception, django_errors.ValidationError):
        return _of_fields(tuple(_model_problems(exception)))
    if database.is_away(exception):
        return _DATABASE_AWAY
    return next((problem for kind, problem in _DJANGO_PROBLEMS if isinstance(exception, kind)), None)


def bad_request(request: HttpRequest, exception: Exception, **kwargs: Any) -> HttpResponse:
    """handler400."""
    if not is_api(request):
        return defaults.bad_request(request, exception, **kwargs)
    return respond(problem_of(exception) or _UNREADABLE, request)


def permission_denied(request: HttpRequest, exception: Exception, **kwargs: Any) -> HttpResponse:
    """handler403."""
    if not is_api(request):
        return defaults.permission_denied(request, exception, **kwargs)
    return respond(Problem(status=403, code="not_allowed", detail="This is not allowed."), request)


def page_not_found(request: HttpRequest, exception: Exception, **kwargs: Any) -> HttpResponse:
    """handler404."""
    if not is_api(request):
        return defaults.page_not_found(request, exception, **kwargs)
    return api_not_found(request)


def server_error(request: HttpRequest, **kwargs: Any) -> HttpResponse:
    """handler500."""
    if not is_api(request):
        return defaults.server_error(request, **kwargs)
    # Django calls this while it handles what was raised outside any view.
    if database.is_away(sys.exc_info()[1]):
        return respond(_DATABASE_AWAY, request)
    return respond(Problem(status=500, code="internal_error", detail=UNEXPECTED), request)


@csrf_exempt
def api_not_found(request: HttpRequest) -> HttpResponse:
    """The last route below /api/: no such resource, or 308 to the one with a slash at its end."""
    slashed = f"{request.path_info}/"
    if not request.path_info.endswith("/") and resolve(slashed).func is not api_not_found:
        # The same method and body again; below the host that was asked, so that clients send their token too.
        location = request.get_full_path(force_append_slash=True)
        return HttpResponsePermanentRedirect(location, preserve_request=True)
    return respond(
        Problem(status=404, code=PortalNotFound.code, detail="There is no such resource in the API."), request
    )


def csrf_failure(request: HttpRequest, reason: str = "", **kwargs: Any) -> HttpResponse:
    """CSRF_FAILURE_VIEW."""
    if not is_api(request):
        return django_csrf_failure(request, reason=reason, **kwargs)
    return respond(Problem(status=403, code="csrf_failed", detail=f"CSRF check failed: {reason}"), request)


_DATABASE_AWAY = Problem(
    status=503,
    code="database_unavailable",
    detail=DATABASE_AWAY,
    headers={"Retry-After": str(database.RETRY_SECONDS)},
)
_UNREADABLE = Problem(status=400, code="malformed", detail="The request could not be read.")
_DJANGO_PROBLEMS: tuple[tuple[type[Exception], Problem], ...] = (
    (Http404, Problem(status=404, code="not_found", detail="There is nothing here, or it is not yours.")),
    (django_errors.PermissionDenied, Problem(status=403, code="not_allowed", detail="This is not allowed.")),
    (
        django_errors.RequestDataTooBig,
        Problem(status=413, code=TooLarge.code, detail="The request body is too large."),
    ),
    (django_errors.SuspiciousOperation, _UNREADABLE),
    (UnreadablePostError, _UNREADABLE),
)


def _of_portal_error(error: PortalError) -> Problem:
    headers: dict[str, str] = {}
    if isinstance(error, (RateLimited, Unavailable)) and error.retry_after_seconds is not None:
        headers["Retry-After"] = str(max(1, error.retry_after_seconds))
    if error.status == 401:
        headers.update(CHALLENGE)
    return Problem(
        status=error.status,
        code=error.code,
        title=error.title,
        detail=error.message,
        errors=error.errors[:ERRORS_MAX],
        headers=headers,
        members=error.members,
    )


def too_many(wait: float) -> Problem:
    """More requests than the rate allows, for so many seconds."""
    seconds = max(1, math.ceil(wait))
    return Problem(
        status=429,
        code=RateLimited.code,
        detail=f"Too many requests: try again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )


def _of_api_exception(error: drf_errors.APIException) -> Problem:
    if isinstance(error, drf_errors.ValidationError):
        return _of_fields(tuple(flatten(error.detail)))
    if isinstance(error, (drf_errors.NotAuthenticated, drf_errors.AuthenticationFailed)):
        return Problem(status=401, code=_code(error), detail=_text(error.detail), headers=CHALLENGE)
    if isinstance(error, drf_errors.Throttled):
        return too_many(getattr(error, "wait", None) or 1)
    if isinstance(error, drf_errors.UnsupportedMediaType):
        return Problem(status=415, code=_code(error), detail=_no_json(error))
    return Problem(status=error.status_code, code=_code(error), detail=_text(error.detail))


def _no_json(error: drf_errors.UnsupportedMediaType) -> str:
    sent = _text(error.detail).partition('"')[2].partition('"')[0]
    return f"Send the body as application/json; it came {f'as {sent}' if sent else 'without a Content-Type'}."


def _of_fields(problems: tuple[FieldProblem, ...]) -> Problem:
    first = problems[0] if problems else FieldProblem(field="", code="invalid", message="Invalid values.")
    detail = f"{first.field}: {first.message}" if first.field else first.message
    if len(problems) > 1:
        listed = f", of which {ERRORS_MAX} are listed" if len(problems) > ERRORS_MAX else ""
        detail = f"{detail} ({len(problems):,} problems in all{listed})"
    return Problem(status=422, code="invalid", detail=detail, errors=problems[:ERRORS_MAX])


def flatten(detail: Any, path: str = "") -> Iterator[FieldProblem]:
    """DRF's nested error detail as dotted fields, such as `env.0.name`."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from flatten(inner, path if name == "non_field_errors" else _join(path, name))
    elif isinstance(detail, (list, tuple)):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, (Mapping, list, tuple))
            yield from flatten(inner, _join(path, index) if nested else path)
    else:
        yield FieldProblem(field=path, code=str(getattr(detail, "code", "invalid")), message=str(detail))


def _model_problems(error: django_errors.ValidationError) -> Iterator[FieldProblem]:
    by_field: Iterable[tuple[str, Iterable[django_errors.ValidationError]]] = (
        error.error_dict.items() if hasattr(error, "error_dict") else [("", error.error_list)]
    )
    for name, problems in by_field:
        shown = "" if name == django_errors.NON_FIELD_ERRORS else name
        for problem in problems:
            yield FieldProblem(
                field=shown, code=problem.code or "invalid", message=" ".join(problem.messages)
            )


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _code(error: drf_errors.APIException) -> str:
    codes = error.get_codes()
    code = codes if isinstance(codes, str) else error.default_code
    renamed = {
        "not_authenticated": "not_signed_in",
        "permission_denied": "not_allowed",
        "parse_error": "malformed",
    }
    return renamed.get(code, code)


def _text(detail: Any) -> str:
    return detail if isinstance(detail, str) else "; ".join(problem.message for problem in flatten(detail))
