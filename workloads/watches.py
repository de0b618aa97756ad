"""What the watcher follows of the cluster, by its rows. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import Min
from django.db.models.functions import JSONObject

from cluster.names import DEFAULT_CLUSTER
from foundation.models import PlatformSettings
from workloads.models import WatchCursor


def followed_kinds(*, cluster: str = DEFAULT_CLUSTER) -> frozenset[str]:
    """Names of the watches that follow something: of an optional kind its address, as long as the API serves it."""
    return frozenset(WatchCursor.objects.of(cluster).values_list("kind", flat=True))


Followed = Callable[[], frozenset[str]]
"""Answers like `followed_kinds`: a page that has read the watches for another part answers from those."""


@dataclass(frozen=True, slots=True)
class Watches:
    """What is followed of the cluster: `kinds` as `followed_kinds` has them, and the settings, which name the optional
    ones. `seen_at` is how old the oldest is of what was seen of them, None before anything was.
    """

    kinds: frozenset[str]
    settings: PlatformSettings
    seen_at: datetime | None


def watches(*, cluster: str = DEFAULT_CLUSTER) -> Watches:
    """All of them, and the settings, in one query."""
    both = JSONObject(kinds=JSONBAgg("kind", default=[]), settings=PlatformSettings.as_json())
    row = WatchCursor.objects.of(cluster).aggregate(both=both, seen_at=Min("seen_at"))
    return Watches(
        kinds=frozenset(row["both"]["kinds"]),
        settings=PlatformSettings.of_json(row["both"]["settings"]),
        seen_at=row["seen_at"],
    )
