"""What preflight found last: kept for a while, so that pages can say it without asking the cluster each time.

Kept in the cache, which may be wiped: then it is not known, and whoever opens the page of it looks anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, get_args

from django.core.cache import cache

from cluster.client import ClusterClient
from cluster.preflight import Check, run
from cluster.preflight.registry import Status

KEPT: Final = timedelta(days=1)
OLD_AFTER: Final = timedelta(minutes=15)
TOLD_MAX: Final = 3
_STATES: Final = get_args(Status)
_ORDER: Final = {"fail": 0, "warn": 1, "ok": 2}


@dataclass(frozen=True, slots=True)
class Findings:
    """The checks, the worst first, and when they were made."""

    checks: Sequence[Check]
    looked_at: datetime

    @property
    def troubles(self) -> list[Check]:
        return [check for check in self.checks if check.status != "ok"]

    @property
    def worst(self) -> list[Check]:
        """What a page about something else says of them."""
        return self.troubles[:TOLD_MAX]

    @property
    def more(self) -> int:
        """How many troubles are not among the worst."""
        return len(self.troubles) - len(self.worst)

    def is_old(self, now: datetime) -> bool:
        return now - self.looked_at > OLD_AFTER

    def count(self, status: Status) -> int:
        return sum(check.status == status for check in self.checks)

    @property
    def failed(self) -> int:
        return self.count("fail")

    @property
    def warned(self) -> int:
        return self.count("warn")


def look(client: ClusterClient, *, now: datetime) -> Findings:
    """Ask the cluster, and keep what was found."""
    found = run(client)
    kept = {"looked_at": now.isoformat(), "checks": [check.as_dict() for check in found]}
    cache.set(_key(client.cluster), kept, timeout=int(KEPT.total_seconds()))
    return _findings(found, now)


def last_look(cluster: str) -> Findings | None:
    """What was found last; None where nobody has looked for a day, or the cache was wiped."""
    kept = cache.get(_key(cluster))
    try:
        checks = [_check(each) for each in kept["checks"]]
        return _findings(checks, datetime.fromisoformat(kept["looked_at"]))
    except (TypeError, KeyError, ValueError):
        # Whatever else stands there is none of ours.
        return None


def _key(cluster: str) -> str:
    return f"preflight:{cluster}"


def _findings(checks: Sequence[Check], looked_at: datetime) -> Findings:
    return Findings(sorted(checks, key=lambda check: _ORDER[check.status]), looked_at)


def _check(row: Any) -> Check:
    """Raises ValueError or KeyError for what is no finding."""
    texts = {name: row[name] for name in ("id", "title", "status", "detail", "fix")}
    if texts["status"] not in _STATES or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("not a finding")
    return Check(**texts)
