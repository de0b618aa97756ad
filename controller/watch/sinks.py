"""What is done with the objects of one kind that the watcher follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from django.db import models
from django.db.models import QuerySet

from cluster.client import ClusterClient


class Sink(Protocol):
    """An object reported twice, late or out of order changes nothing that is newer. `cluster` is where it was seen."""

    def seen(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None:
        """Record one object."""
        ...

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        """Record a page of a list that shows the cluster at the version `as_of`; what has not changed costs little."""
        ...

    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        """After a whole list: what the rows of the client's cluster know and the list does not, once a read by name
        agrees.
        """
        ...


Row = TypeVar("Row", bound=models.Model)


def lacking(rows: QuerySet[Row], present: set[str]) -> QuerySet[Row]:
    """The rows whose UIDs are not among these; however many there are, only their keys are read."""
    keys = [key for key, uid in rows.values_list("pk", "uid") if uid not in present]
    return rows.filter(pk__in=keys)


class OneByOne(ABC):
    """A sink that records each object of a page by itself, unless its row says the same already."""

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
        """UIDs of those that would change nothing."""
        return set()
