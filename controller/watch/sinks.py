"""How the watcher records the objects of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from django.db import models
from django.db.models import QuerySet

from cluster.client import ClusterClient


class Sink(Protocol):
    """Records objects; one reported twice, late or out of order never overwrites newer data. `cluster` is theirs."""

    def seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        """Record what a watch told: each object once."""
        ...

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        """Record a page of a list at the resource version `as_of`; unchanged objects are cheap."""
        ...

    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        """After a complete list: mark rows of the client's cluster that the list lacks as gone, once a read by name
        confirms it.
        """
        ...

    def reached(self, *, cluster: str) -> str:
        """The latest version that a row knows; empty where rows know none."""
        ...

    def went_back(self, *, cluster: str, version: str) -> None:
        """The cluster was set back to an older state, of this version: what the rows know of later did not happen."""
        ...


Row = TypeVar("Row", bound=models.Model)


def lacking(rows: QuerySet[Row], present: set[str]) -> QuerySet[Row]:
    """The rows whose UIDs are not in the list; only the keys of all rows are read."""
    keys = [key for key, uid in rows.values_list("pk", "uid") if uid not in present]
    return rows.filter(pk__in=keys)


class OneByOne(ABC):
    """A sink that records each object of a page separately, unless its row is current."""

    @abstractmethod
    def one(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None: ...

    @abstractmethod
    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None: ...

    def seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        for manifest in manifests:
            self.one(manifest, cluster=cluster, now=now, gone=gone)

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        same = self.unchanged(page)
        for item in page:
            if item["metadata"]["uid"] not in same:
                self.one(item, cluster=cluster, now=now, gone=False)

    def unchanged(self, page: Sequence[Mapping[str, Any]]) -> set[str]:
        """UIDs of the objects whose rows are current."""
        return set()

    def reached(self, *, cluster: str) -> str:
        """Empty: most rows know no version."""
        return ""

    def went_back(self, *, cluster: str, version: str) -> None:  # noqa: B027 (most have nothing to do)
        """Nothing, where rows know no versions: a list brings them up to date."""
