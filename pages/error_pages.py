"""Errors as pages. Below /api/ they stay the problem documents of `foundation.http.problems`."""

from __future__ import annotations

import sys
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template import loader

from foundation import database
from foundation.errors import NotSignedIn, PortalError, RateLimited
from foundation.http import problems
from foundation.http.context import is_api, request_id_of
from foundation.http.middleware import GetResponse

NOT_FOUND = "There is nothing at this address, or it is not yours to see."
_TITLES = {
    400: "This request could not be read",
    403: "This is not yours to do",
    404: "Nothing here",
    409: "It has changed meanwhile",
    413: "Too large",
    422: "Some values will not do",
    429: "Too many requests",
    503: "Not available right now",
}


class ErrorPagesMiddleware:
    """A PortalError that a page raises becomes a page with its status."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Django calls this with what a view raised; None leaves it to Django."""
        if is_api(request):
            return None
        if database.is_away(exception):
            return _database_away(request)
        if not isinstance(exception, PortalError):
            return None
        return error_page(request, exception)


def error_page(request: HttpRequest, error: PortalError) -> HttpResponse:
    """The page of an error. An unknown thing and one that belongs to another user look the same."""
    status = 403 if isinstance(error, NotSignedIn) else error.status
    message = NOT_FOUND if status == 404 else error.message
    response = _page(request, status, message)
    if isinstance(error, RateLimited):
        response["Retry-After"] = str(max(1, error.retry_after_seconds))
    return response


def _page(request: HttpRequest, status: int, message: str) -> HttpResponse:
    title = _TITLES.get(status, "Something went wrong")
    return render(
        request, "errors/error.html", {"status": status, "title": title, "message": message}, status=status
    )


def bad_request(request: HttpRequest, exception: Exception, **kwargs: Any) -> HttpResponse:
    """handler400."""
    if is_api(request):
        return problems.bad_request(request, exception, **kwargs)
    return _bare(request, 400, _TITLES[400], "Go back, and try it once more from there.")


def permission_denied(request: HttpRequest, exception: Exception, **kwargs: Any) -> HttpResponse:
    """handler403."""
    if is_api(request):
        return problems.permission_denied(request, exception, **kwargs)
    return _page(request, 403, "Your account may not do this.")


def page_not_found(request: HttpRequest, exception: Exception, **kwargs: Any) -> HttpResponse:
    """handler404."""
    if is_api(request):
        return problems.page_not_found(request, exception, **kwargs)
    return _page(request, 404, NOT_FOUND)


def server_error(request: HttpRequest, **kwargs: Any) -> HttpResponse:
    """handler500: asks neither the database nor the session, which may be what failed."""
    if is_api(request):
        return problems.server_error(request, **kwargs)
    if database.is_away(sys.exc_info()[1]):
        return _database_away(request)
    message = "The portal failed to answer. It has been logged under the id below."
    return _bare(request, 500, "Something went wrong", message)


def _database_away(request: HttpRequest) -> HttpResponse:
    response = _bare(request, 503, _TITLES[503], problems.DATABASE_AWAY)
    response["Retry-After"] = str(database.RETRY_SECONDS)
    response["Cache-Control"] = "no-store"
    return response


def _bare(request: HttpRequest, status: int, title: str, message: str) -> HttpResponse:
    context = {"status": status, "title": title, "message": message, "request_id": request_id_of(request)}
    return HttpResponse(loader.render_to_string("errors/bare.html", context), status=status)
