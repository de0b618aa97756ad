"""How Django, Celery and the cache reach PostgreSQL and the Redis-protocol server."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from portal.folders import Folders
from portal.settings.env import DatabaseAddress

EMBEDDED_NAME = "portal"
EMBEDDED_USER = "portal"
# A statement of a page or a task that takes longer is a bug; migrations lift it for themselves (portal.apps).
STATEMENT_TIMEOUT_MS = 30_000
LOCK_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_SECONDS = 5


def database(address: DatabaseAddress | None, folders: Folders) -> dict[str, Any]:
    """Django's `DATABASES` entry: the configured server, or the embedded one over its Unix socket."""
    own_options = dict(address.options) if address else {}
    server_options = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c lock_timeout={LOCK_TIMEOUT_MS}"
    options = {
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        **own_options,
        "options": f"{server_options} {own_options.get('options', '')}".strip(),
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": address.name if address else EMBEDDED_NAME,
        "USER": address.user if address else EMBEDDED_USER,
        "PASSWORD": address.password if address else "",
        "HOST": address.host if address else str(folders.postgres_sockets),
        "PORT": (address.port or "") if address else "",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def embedded_redis_url(folders: Folders, *, number: int = 0) -> str:
    """The embedded Valkey's URL as redis-py reads it."""
    return f"unix://{folders.valkey_socket}?db={number}"


def cache(redis_url: str) -> dict[str, Any]:
    """Django's `CACHES` entry on that server."""
    return {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": redis_url,
        "KEY_PREFIX": "portal",
        "TIMEOUT": 300,
        # Django's own serializer unpickles what it reads, which runs any code that was written there.
        "OPTIONS": {"serializer": "foundation.json_cache.JSONSerializer"},
    }


def broker_url(redis_url: str) -> str:
    """The same server as Celery's transport writes it: `redis+socket://` instead of `unix://`."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    number = parse_qs(parts.query).get("db", ["0"])[0]
    who, at, _ = parts.netloc.rpartition("@")
    return f"redis+socket://{who}{at}{parts.path}?virtual_host={number}"
