"""A session that ends while a page is open: the whole browser goes to the sign-in page, and comes back to that page."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.utils.cache import add_never_cache_headers
from django.utils.http import url_has_allowed_host_and_scheme

from foundation.http.middleware import GetResponse


class ExpiredSessionMiddleware:
    """A fragment's redirect to the sign-in page is one of the browser: htmx would follow it, and show that page inside
    the part of the page that it had asked for.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.headers.get("HX-Request") != "true" or not _leads_to_sign_in(response):
            return response
        leading = HttpResponse(status=204, headers={"HX-Redirect": _sign_in(request)})
        add_never_cache_headers(leading)
        return leading


def _leads_to_sign_in(response: HttpResponseBase) -> bool:
    location = urlsplit(response.get("Location", ""))
    return response.status_code == 302 and location.path == resolve_url(settings.LOGIN_URL)


def _sign_in(request: HttpRequest) -> str:
    page = _open_page(request)
    return redirect_to_login(page).url if page else resolve_url(settings.LOGIN_URL)


def _open_page(request: HttpRequest) -> str:
    """Where the person is, as the browser says; empty if that is no page of this site."""
    address = request.headers.get("HX-Current-URL", "")
    if not _is_ours(address, request):
        return ""
    url = urlsplit(address)
    page = urlunsplit(("", "", url.path, url.query, ""))
    return page if _is_ours(page, request) else ""


def _is_ours(url: str, request: HttpRequest) -> bool:
    return url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
