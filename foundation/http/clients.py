"""Whom a request is counted for before anything is looked up: whom its credential let in here before, else its address.

A credential that somebody made up says nothing, and costs nothing to make: whoever sends many is one client all the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any, Final

from django.conf import settings

from foundation.http.context import client_ip, is_api

KNOWN_MAX: Final = 10_000
"""Credentials that a process knows whom they let in; above it forgets all of them, and knows each again once it was checked."""
_NETWORK_BITS: Final = 64
"""Whoever uses IPv6 has at least a network of this length."""
_known: dict[bytes, str] = {}


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Who is counted as one."""

    subject: str
    """Such as `user:7`, or `address:192.0.2.1`."""
    is_known: bool
    """Whether a credential says so that was checked; addresses can be had by the thousand."""


def know(request: Any, subject: str) -> None:
    """The request's credential was checked and is the subject's, such as `user:7`: all of that one's are counted together."""
    if len(_known) >= KNOWN_MAX:
        _known.clear()
    _known[credential_of(request)] = subject


def unknow(request: Any) -> None:
    """The request's credential was checked and opens nothing."""
    _known.pop(credential_of(request), None)


def client_of(request: Any) -> HttpClient:
    """Whom a request is counted for while it is not looked up who that is."""
    subject = _known.get(credential_of(request)) if _known else None
    return HttpClient(subject or address_of(request), is_known=subject is not None)


def address_of(request: Any) -> str:
    """The network that the request came from, as a subject: `address:192.0.2.1`."""
    return f"address:{network_of(client_ip(request))}"


def network_of(address: str | None) -> str:
    """What one client is taken for: an IPv4 address, the /64 of an IPv6 one."""
    if address is None:
        return "unknown"
    return (
        address
        if ip_address(address).version == 4
        else str(ip_network((address, _NETWORK_BITS), strict=False))
    )


def credential_of(request: Any) -> bytes:
    """What a request comes with, a credential or else an address, as a key of which nothing can be read.

    Of a page it is the cookie, whatever else is sent along: who may send anything there is many otherwise.
    """
    bearer = request.META.get("HTTP_AUTHORIZATION", "") if is_api(request) else ""
    if bearer.partition(" ")[0].lower() != "bearer":
        bearer = ""
    given = bearer or request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    who = given or f"\n{address_of(request)}"
    return hashlib.sha256(who.encode("utf-8", "replace")).digest()
