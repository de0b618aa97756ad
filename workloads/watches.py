"""What of the cluster is followed, as the rows of the watcher say. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Subquery

from foundation.models import PlatformSettings, default_optional_kinds
from workloads.models import WatchCursor


def followed_kinds() -> frozenset[str]:
    """Names of the watches that follow something: of an optional kind its address, as long as the API serves it."""
    return frozenset(WatchCursor.objects.values_list("kind", flat=True))


Followed = Callable[[], frozenset[str]]
"""Answers as `followed_kinds` does: a page that has read the watches for another part answers from those."""


@dataclass(frozen=True, slots=True)
class Watches:
    """What is followed of the cluster: `kinds` as `followed_kinds` has them, and of those that are optional the ones
    that the settings name. `seen_at` is how old the oldest is of what was seen of them, None before anything was.
    """

    kinds: frozenset[str]
    named: frozenset[str]
    seen_at: datetime | None


def watches() -> Watches:
    """All of them, and what the settings name, in one query."""
    settings = PlatformSettings.objects.filter(pk=PlatformSettings.SINGLETON_PK)
    rows = WatchCursor.objects.annotate(named=Subquery(settings.values("optional_kinds")))
    found = list(rows.values_list("kind", "seen_at", "named"))
    named = next((named for _, _, named in found if named is not None), default_optional_kinds())
    return Watches(
        kinds=frozenset(kind for kind, _, _ in found),
        named=frozenset(named),
        seen_at=min((seen for _, seen, _ in found if seen is not None), default=None),
    )
