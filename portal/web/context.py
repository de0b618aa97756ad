"""What the frame around every page shows: where one is, whose portal it is, how fresh what it says is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Min
from django.http import HttpRequest

from foundation import clock
from foundation.http.context import request_id_of
from workloads.models import WatchCursor

THEME_COOKIE: Final = "portal-theme"
THEMES: Final = ("auto", "light", "dark")
FRESH_WITHIN: Final = timedelta(seconds=90)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor. Asks one query at most, and none for a fragment or without a session."""
    theme = request.COOKIES.get(THEME_COOKIE, "auto")
    facts: dict[str, Any] = {
        "theme": theme if theme in THEMES else "auto",
        "local_demo": settings.EMBEDDED_CLUSTER,
        "request_id": request_id_of(request),
        "section": _section(request.path),
    }
    if "HX-Target" in request.headers or not getattr(request, "user", None):
        return facts
    if request.user.is_authenticated:
        facts["freshness"] = _freshness()
    return facts


def _section(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if not parts:
        return "home"
    if parts[0] == "teams" and len(parts) > 2 and parts[2] in {"runs", "endpoints"}:
        return parts[2]
    return parts[0]


def _freshness() -> dict[str, Any]:
    """How old the oldest of what the portal watches is."""
    seen = WatchCursor.objects.aggregate(seen=Min("seen_at"))["seen"]
    if seen is None:
        return {"state": "unknown", "seen_at": None}
    return {"state": "fresh" if clock.now() - seen <= FRESH_WITHIN else "stale", "seen_at": seen}
