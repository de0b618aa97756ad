"""The watcher's copies of Kubernetes' events; nobody is woken by them, as what they tell is in an object's status too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cluster.client import ClusterClient
from workloads.kept_events import record_events


@dataclass(frozen=True)
class EventSink:
    """Copies what is said. That an event is gone means nothing: the API server deletes each after an hour."""

    def seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        if not gone:
            record_events(manifests, cluster=cluster, now=now)

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        record_events(page, cluster=cluster, now=now)

    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None: ...

    def reached(self, *, cluster: str) -> str:
        return ""

    def went_back(self, *, cluster: str, version: str) -> None:
        """What was said was said."""
