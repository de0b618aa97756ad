"""Browsers that have signed in to an account: a signed cookie, so that guesses elsewhere do not hold them up.

It lets nobody in. It says whose failures are counted apart (teams.throttle), after OWASP's "Slow Down Online Guessing
Attacks with Device Cookies".
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase

MAX_AGE_SECONDS: Final = 180 * 86_400
_SALT: Final = "portal.device"
_ID_BYTES: Final = 12


def cookie_name() -> str:
    """With the prefix that binds it to this host wherever cookies are sent by TLS alone."""
    return "__Host-portal-device" if settings.SESSION_COOKIE_SECURE else "portal-device"


def device_of(request: Any, username: str) -> str | None:
    """The id of the browser, if it signed in to the account of that name; None otherwise."""
    try:
        account, device = signing.loads(
            request.COOKIES.get(cookie_name(), ""), salt=_SALT, max_age=MAX_AGE_SECONDS
        )
    except (signing.BadSignature, ValueError):
        return None
    return str(device) if account == _account(username) else None


def remember_device(request: HttpRequest, response: HttpResponseBase, username: str) -> None:
    """Have the browser known for the account from now on; it keeps the id that it had for it."""
    device = device_of(request, username) or secrets.token_urlsafe(_ID_BYTES)
    response.set_cookie(
        cookie_name(),
        signing.dumps([_account(username), device], salt=_SALT),
        max_age=MAX_AGE_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _account(username: str) -> str:
    """No name in a cookie that outlives the session."""
    return hashlib.sha256(username.casefold().encode()).hexdigest()[:32]
