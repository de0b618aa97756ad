"""What a request carries for everybody: its id and the address it came from."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.http import HttpRequest

REQUEST_ID_HEADER = "X-Request-ID"
_SANE_REQUEST_ID = re.compile(r"\A[A-Za-z0-9._-]{8,64}\Z")


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
    """The client's address; X-Forwarded-For counts only as far as `TRUSTED_PROXIES` wrote it. None if unknown."""
    trusted = set(getattr(settings, "TRUSTED_PROXIES", ()))
    chain = [each.strip() for each in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if each.strip()]
    address = request.META.get("REMOTE_ADDR", "")
    while address in trusted and chain:
        address = chain.pop()
    try:
        return str(ip_address(address))
    except ValueError:
        return None


def is_local(request: Any) -> bool:
    """Whether the request was made on this machine and not handed on by a proxy on it."""
    if any(name in request.META for name in ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP")):
        return False
    address = client_ip(request)
    return address is not None and ip_address(address).is_loopback
