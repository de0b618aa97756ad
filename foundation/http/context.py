"""What every request carries: who asks in which way, its id, and the address it came from."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.http import HttpRequest

REQUEST_ID_HEADER = "X-Request-ID"
API_PREFIX = "/api/"
_SANE_REQUEST_ID = re.compile(r"\A[A-Za-z0-9._-]{8,64}\Z")


def is_api(request: HttpRequest) -> bool:
    """Whether a program is asking, so that errors are problem documents and not pages."""
    return request.path.startswith(API_PREFIX)


def request_id_of(request: Any) -> str:
    """The id of a request: what it sent, if sane, else one made on first asking. Kept on the request."""
    plain: HttpRequest = getattr(request, "_request", request)
    known = getattr(plain, "request_id", None)
    if isinstance(known, str):
        return known
    sent = plain.headers.get(REQUEST_ID_HEADER, "")
    made = sent if _SANE_REQUEST_ID.match(sent) else uuid4().hex
    plain.request_id = made  # type: ignore[attr-defined]
    return made


def client_ip(request: Any) -> str | None:
    """The client's address; X-Forwarded-For counts only as far as trusted proxies wrote it. None if unknown."""
    return client_address(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", ""))


def client_address(peer: str, forwarded: str) -> str | None:
    """The same of the address of a connection and of the header's value."""
    chain = [address.strip() for address in forwarded.split(",") if address.strip()]
    address = _address(peer)
    while address is not None and chain and any(address in proxy for proxy in settings.TRUSTED_PROXIES):
        address = _address(chain.pop())
    return None if address is None else str(address)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """A socket for both families writes 10.0.0.1 as ::ffff:10.0.0.1: it is the same."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
