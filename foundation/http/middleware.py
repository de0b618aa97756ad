"""What happens to every request: an id, a measure, a limit, the right Vary, and what no cache may keep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from foundation import logs
from foundation.digits import whole_number
from foundation.http import metrics, rates
from foundation.http.context import REQUEST_ID_HEADER, is_api, request_id_of
from foundation.http.parsers import BODY_BYTES_MAX
from foundation.http.problems import Problem, respond, too_many

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class RequestContextMiddleware:
    """Gives the request an id (X-Request-ID, in and out) and binds it to every log record."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = request_id_of(request)
        with logs.bind(request_id=request_id):
            response = self.get_response(request)
        response[REQUEST_ID_HEADER] = request_id
        return response


class MetricsMiddleware:
    """Counts and times requests by method, route and status."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        response = self.get_response(request)
        route = request.resolver_match.route if request.resolver_match else ""
        metrics.observe_request(
            method=request.method or "",
            route=route,
            status=response.status_code,
            seconds=time.perf_counter() - started,
        )
        return response


class RateMiddleware:
    """Refuses a credential that this process has just refused for asking too often: no statement, no round trip.

    The server asks the same before a thread has the request (foundation.http.arrival); this is for what had one by then.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return refusal_of(request) or self.get_response(request)


class HygieneMiddleware:
    """Refuses NUL characters in a URL (400) and bodies above 2 MiB (413) before anything reads them.

    A view that takes more says so: `body_bytes_max = ...` on its class, or on the function.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            detail = "NUL characters are not accepted in a URL."
            return _refuse(request, Problem(status=400, code="null_character", detail=detail))
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Django calls this once the view is known."""
        del args, kwargs
        limit = int(getattr(getattr(view, "cls", view), "body_bytes_max", BODY_BYTES_MAX))
        if _content_length(request) <= limit:
            return None
        detail = f"The request body is larger than {limit} bytes."
        return _refuse(request, Problem(status=413, code="too_large", detail=detail))


class PersonalMiddleware:
    """No cache keeps what was answered to a bearer or within a session, whatever the answer is.

    Not even a browser's: its Back asks again. An ETag is for clients that keep answers themselves, and 304 goes by what
    the request says. Static files are served before this, and stay theirs to keep.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        session = settings.SESSION_COOKIE_NAME
        personal = "Authorization" in request.headers or session in request.COOKIES
        if (personal or session in response.cookies) and "no-store" not in response.get("Cache-Control", ""):
            response["Cache-Control"] = "no-store"
        return response


class VaryMiddleware:
    """Pages and fragments share URLs, so caches must distinguish them."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not is_api(request) and response.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ["HX-Request"])
        return response


def refusal_of(request: HttpRequest) -> HttpResponse | None:
    """The answer to a request that this process refuses for its rate; None where it does not."""
    wait = rates.refused_for(request)
    if not wait:
        return None
    response = _refuse(request, too_many(wait))
    response["Content-Length"] = str(len(response.content))
    response._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001 - once is enough for Django's log
    return response


def _content_length(request: HttpRequest) -> int:
    raw = str(request.META.get("CONTENT_LENGTH") or "0")
    return whole_number(raw, digits=18) or 0


def _refuse(request: HttpRequest, problem: Problem) -> HttpResponse:
    if is_api(request):
        return respond(problem, request)
    return HttpResponse(
        f"{problem.detail}\n",
        status=problem.status,
        content_type="text/plain; charset=utf-8",
        headers=problem.headers,
    )
