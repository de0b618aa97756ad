"""/healthz: the process answers. /readyz: what it needs, each part named."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from foundation.errors import Unavailable

log = logging.getLogger(__name__)

CHECK_TIMEOUT_SECONDS = 2
Check = Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    check: Check
    required: bool


_readiness: dict[str, Readiness] = {}
_migrated: set[str] = set()


def register_readiness(name: str, check: Check, *, required: bool = True) -> None:
    """Have /readyz ask `check`: it returns a short detail or None, and raises when the part is down.

    It must answer within two seconds. A part that is not `required` (the cluster) degrades, and does not
    make the portal unready. Details are public: keep addresses and credentials out of them.
    """
    _readiness[name] = Readiness(check=check, required=required)


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as the process can answer at all."""
    del request
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """200 `ok` or `degraded`; 503 `unavailable` when a required part is down. Each part is named."""
    del request
    ready, said = readiness()
    return JsonResponse(said, status=200 if ready else 503)


def readiness() -> tuple[bool, dict[str, Any]]:
    """Whether all required parts answer, and the document that names each part."""
    checks = {name: _ask(name, check) for name, check in _readiness.items()}
    down = {name for name, answer in checks.items() if answer["status"] != "ok"}
    required = {name for name in down if _readiness[name].required}
    status = "unavailable" if required else "degraded" if down else "ok"
    return not required, {"status": status, "checks": checks}


def check_database() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    return None


def check_migrations() -> str | None:
    """Raises Unavailable while a migration waits; asked no more once all were seen applied."""
    if connection.alias in _migrated:
        return None
    executor = MigrationExecutor(connection)
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if waiting:
        raise Unavailable(f"{len(waiting)} migrations are not applied.")
    _migrated.add(connection.alias)
    return None


def check_broker() -> str | None:
    client = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=CHECK_TIMEOUT_SECONDS,
        socket_connect_timeout=CHECK_TIMEOUT_SECONDS,
    )
    try:
        client.ping()
    finally:
        client.close()
    return None


def _ask(name: str, readiness: Readiness) -> dict[str, str]:
    try:
        detail = readiness.check()
    except Exception as error:  # noqa: BLE001 - whatever a part fails with, readyz answers
        log.warning("readiness.failed", extra={"part": name, "error": type(error).__name__})
        detail = error.message if isinstance(error, Unavailable) else type(error).__name__
        return {"status": "down" if readiness.required else "degraded", "detail": detail}
    return {"status": "ok", "detail": detail or ""}


register_readiness("database", check_database)
register_readiness("migrations", check_migrations)
# A lost broker delays work and loses none of it: the rows are the queue.
register_readiness("broker", check_broker, required=False)
