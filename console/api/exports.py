"""Lists of workloads as CSV files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from costs.queries import Cost, costs_of, spans_by_card
from foundation import clock
from foundation.http.csv_files import csv_file
from workloads.kinds import kind_of
from workloads.models import Workload

BATCH = 500


@dataclass(frozen=True, slots=True)
class _Line:
    workload: Workload
    cost: Cost


Column = Callable[[_Line], Any]


def labels_of(workload: Workload) -> str:
    """`key=value`, or `key` where the value is empty, by key and separated by commas, as `?label=` takes them."""
    return ",".join(f"{key}={value}" if value else key for key, value in sorted(workload.labels.items()))


def _moment(value: datetime | None) -> str:
    """As REST writes times."""
    return value.isoformat().replace("+00:00", "Z") if value else ""


_COLUMNS: dict[str, Column] = {
    "id": lambda of: of.workload.public_id,
    "team": lambda of: of.workload.team.slug,
    "owner": lambda of: of.workload.owner.username,
    "name": lambda of: of.workload.name,
    "phase": lambda of: of.workload.phase,
    "reason": lambda of: of.workload.reason,
    "message": lambda of: of.workload.message,
    "priority": lambda of: of.workload.priority,
    "flavor": lambda of: of.workload.flavor.name if of.workload.flavor else "",
    "capacity": lambda of: of.workload.capacity_type,
    "quantity": lambda of: of.workload.units,
    "labels": lambda of: labels_of(of.workload),
    "attempts": lambda of: of.workload.attempt_number,
    "created_at": lambda of: _moment(of.workload.created_at),
    "admitted_at": lambda of: _moment(of.workload.admitted_at),
    "started_at": lambda of: _moment(of.workload.started_at),
    "finished_at": lambda of: _moment(of.workload.finished_at),
    "cost_so_far_micro_usd": lambda of: "" if of.cost.so_far is None else of.cost.so_far,
}
COLUMNS = tuple(_COLUMNS)


CSV_SCHEMA: dict[str, Any] = {
    "type": "string",
    "description": f"All rows, a line each, after a line with the names of the columns: "
    f"{', '.join(f'`{name}`' for name in COLUMNS)}. `labels` are `key=value`, separated by commas; what there is none "
    "of is empty. A text that begins like a formula has an apostrophe before it.",
}


def csv_of(workloads: QuerySet[Workload], *, kind: str) -> StreamingHttpResponse:
    """The workloads in their order, as many as there are; a batch at a time is read and held."""
    filename = f"{kind_of(kind).resource_path}.csv"
    return csv_file(COLUMNS, _rows(workloads), filename=filename)


def _rows(workloads: QuerySet[Workload]) -> Iterator[Sequence[Any]]:
    now, price_book = clock.now(), spans_by_card()
    found = workloads.select_related("team", "owner", "flavor").iterator(chunk_size=BATCH)
    while batch := list(islice(found, BATCH)):
        costs = costs_of(batch, now=now, price_book=price_book)
        for workload in batch:
            line = _Line(workload, costs[workload.pk])
            yield [value(line) for value in _COLUMNS.values()]
