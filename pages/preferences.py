"""What a person chooses for a browser: the theme, whether single keys do something, the zone of the times that are shown.

Kept in cookies, which the server reads: no script, so no flash, and nothing that other people's pages could ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from foundation.time_zones import is_time_zone, times_in

THEME_COOKIE: Final = "portal-theme"
THEMES: Final = ("auto", "light", "dark")
KEYS_COOKIE: Final = "portal-keys"
KEYS: Final = ("on", "off")
ZONE_COOKIE: Final = "portal-zone"
BROWSER_ZONE_COOKIE: Final = "portal-browser-zone"
"""Written by `static/portal/times.js`: the zone of the browser, which holds where none is chosen."""
YEAR_SECONDS: Final = 365 * 86400
AS_BROWSER: Final = ""


def theme_of(request: HttpRequest) -> str:
    """One of `THEMES`."""
    theme = request.COOKIES.get(THEME_COOKIE, "auto")
    return theme if theme in THEMES else "auto"


def single_keys_of(request: HttpRequest) -> bool:
    """Whether keys without Ctrl, Alt or Meta may do something (WCAG 2.2, 2.1.4)."""
    return request.COOKIES.get(KEYS_COOKIE, "on") != "off"


def chosen_zone_of(request: HttpRequest) -> str:
    """The zone that the person has chosen here; empty where it is the browser's."""
    return _zone(request, ZONE_COOKIE)


def zone_of(request: HttpRequest) -> str:
    """The IANA name of the zone in which times are shown: the chosen one, else the browser's, else UTC."""
    return chosen_zone_of(request) or _zone(request, BROWSER_ZONE_COOKIE) or "UTC"


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    return _kept(request, THEME_COOKIE, "theme", lambda theme: theme in THEMES)


@require_POST
def choose_keys(request: HttpRequest) -> HttpResponse:
    return _kept(request, KEYS_COOKIE, "keys", lambda keys: keys in KEYS)


@require_POST
def choose_zone(request: HttpRequest) -> HttpResponse:
    return _kept(request, ZONE_COOKIE, "zone", is_time_zone)


def _zone(request: HttpRequest, cookie: str) -> str:
    # A slash is quoted by some browsers and not by others.
    zone = request.COOKIES.get(cookie, "").replace("%2F", "/")
    return zone if is_time_zone(zone) else ""


def _kept(request: HttpRequest, cookie: str, field: str, is_one: Callable[[str], bool]) -> HttpResponse:
    """Keep what was chosen and go back; what is none of the choices forgets the choice."""
    given: Mapping[str, str] = request.POST
    target = given.get("next", "/")
    safe = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    response = redirect(target if safe and "\x00" not in target else "/")
    chosen = given.get(field, "")
    if not is_one(chosen):
        response.delete_cookie(cookie, samesite="Lax")
        return response
    response.set_cookie(
        cookie,
        chosen,
        max_age=YEAR_SECONDS,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )
    return response


class TimeZoneMiddleware:
    """Times on pages are written in the zone of who reads them. REST and what Django's forms read stay in UTC."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with times_in(zone_of(request)):
            return self._get_response(request)
