"""System checks of our own: `manage.py check` (and every start) refuses what would be unsafe."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Doubt

from portal.runtime.refusals import EXPOSED_HINT, exposed_message

GZIP = "django.middleware.gzip.GZipMiddleware"


@register(Tags.security)
def embedded_cluster_stays_on_this_machine(**_: Any) -> list[CheckMessage]:
    """The embedded cluster runs the commands of pods as processes of this user, so no one else may reach the portal."""
    return [
        Error(exposed_message(name, bind), hint=EXPOSED_HINT.format(name=name), id="portal.E001")
        for name, bind in settings.ENVIRONMENT.exposed_binds().items()
    ]


@register(Tags.security)
def secret_key_is_shared(**_: Any) -> list[CheckMessage]:
    """With a database of its own the portal runs as several processes, which must agree on one key."""
    if settings.ENVIRONMENT.database is None or settings.ENVIRONMENT.secret_key:
        return []
    return [
        Error(
            "PORTAL_DATABASE_URL is set but PORTAL_SECRET_KEY is not: each process would invent its own key.",
            hint="Set PORTAL_SECRET_KEY or PORTAL_SECRET_KEY_FILE to the same 50 random characters everywhere.",
            id="portal.E002",
        )
    ]


@register(Tags.security, deploy=True)
def clients_are_told_apart(**_: Any) -> list[CheckMessage]:
    """Behind the proxy that ends TLS every user has its address: one person's wrong passwords lock out all."""
    if not settings.PUBLIC_URL.startswith("https://") or settings.TRUSTED_PROXIES:
        return []
    return [
        Doubt(
            "PORTAL_PUBLIC_URL is https but PORTAL_TRUSTED_PROXIES is not set: all clients share the proxy's address.",
            hint="Set PORTAL_TRUSTED_PROXIES to the addresses or networks of the proxies, such as 10.0.0.0/8.",
            id="portal.W001",
        )
    ]


@register(Tags.security)
def answers_are_not_compressed(**_: Any) -> list[CheckMessage]:
    """Compression on the fly holds back streams and leaks secrets by length (BREACH)."""
    if GZIP not in settings.MIDDLEWARE:
        return []
    return [Error(f"{GZIP} must not be installed.", id="portal.E003")]
