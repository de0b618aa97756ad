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

    def seen(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None:
        """Record one object."""
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


Row = TypeVar("Row", bound=models.Model)


def lacking(rows: QuerySet[Row], present: set[str]) -> QuerySet[Row]:
    """The rows whose UIDs are not in the list; only the keys of all rows are read."""
    keys = [key for key, uid in rows.values_list("pk", "uid") if uid not in present]
    return rows.filter(pk__in=keys)


class OneByOne(ABC):
    """A sink that records each object of a page separately, unless its row is current."""

    @abstractmethod
    def seen(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None: ...

    @abstractmethod
    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None: ...

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        same = self.unchanged(page)
        for item in page:
            if item["metadata"]["uid"] not in same:
                self.seen(item, cluster=cluster, now=now, gone=False)

    def unchanged(self, page: Sequence[Mapping[str, Any]]) -> set[str]:
        """UIDs of the objects whose rows are current."""
        return set()
