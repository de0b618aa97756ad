"""Rows of what is in a cluster, of which there may be several: every caller says which one."""

from __future__ import annotations

from typing import Any, Self, TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


class InCluster(models.QuerySet[Row]):
    """`objects` of the models that have a column `cluster`.

    A query begins with `of`, or names a row by what is unique to it: its UID, its key, or its workload. A
    test goes through the code and lists the exceptions (tests/architecture/test_clusters.py).
    """

    def of(self, cluster: str) -> Self:
        """The rows of one cluster."""
        named: dict[str, Any] = {"cluster": cluster}
        return self.filter(**named)
