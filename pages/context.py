"""What the frame around every page shows: where one is, whose portal it is, how fresh what it says is."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from console.pages.queries import watches_of
from console.pages.reading import Freshness, freshness_of
from foundation import clock
from foundation.http.context import request_id_of
from foundation.time_zones import time_zones
from pages.destinations import GO_KEYS, KEY_LIST
from pages.preferences import chosen_zone_of, single_keys_of, theme_of, zone_of
from workloads.kinds import kinds


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor. Asks one query, and none for a fragment, without a session, or where the page knows already
    how fresh what it says is.
    """
    facts: dict[str, Any] = {
        "theme": theme_of(request),
        "single_keys": single_keys_of(request),
        "time_zone": SimpleLazyObject(lambda: zone_of(request)),
        "chosen_zone": SimpleLazyObject(lambda: chosen_zone_of(request)),
        "time_zones": time_zones,
        "local_demo": settings.EMBEDDED_CLUSTER,
        "request_id": request_id_of(request),
        "section": _section(request.path),
    }
    if "HX-Target" in request.headers or not getattr(request, "user", None):
        return facts
    if request.user.is_authenticated:
        facts["key_list"] = KEY_LIST
        facts["go_keys"] = [(keys, reverse(route)) for keys, route in GO_KEYS.items()]
        facts["freshness"] = SimpleLazyObject(lambda: _freshness(request))
    return facts


def _section(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if not parts:
        return "home"
    if parts[0] == "teams" and len(parts) > 2 and parts[2] in {kind.page_path for kind in kinds()}:
        return parts[2]
    return parts[0]


def _freshness(request: HttpRequest) -> Freshness:
    """How old the oldest of what the portal watches is."""
    return freshness_of(watches_of(request).seen_at, now=clock.now())
