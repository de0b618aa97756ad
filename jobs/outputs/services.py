"""Keeps what a run reports of its outputs, and says of each where it lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction

from foundation.errors import Invalid
from jobs.models import RunOutput, TrainingRun
from jobs.outputs.places import OutputPlace, fetched_from_claim, fetched_from_pod, place_of
from jobs.specs import TrainingRunSpec
from workloads.models import Attempt, PodRecord, Workload

OUTPUTS_MAX: Final = 100
NAME_LENGTH_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class FoundOutput:
    """An output, and what may be done with it."""

    row: RunOutput
    place: OutputPlace | None
    """None: in its pods alone."""
    fetch: str
    """Commands, a line each; empty where it went with its pods."""


def report_output(
    *, attempt: Attempt, path: str, size_bytes: int, metrics: Mapping[str, float], now: datetime
) -> RunOutput:
    """Keep it; the same path again replaces what was said of it.

    Raises Invalid `too_many_outputs` beyond 100 of a run.
    """
    with transaction.atomic():
        # Who reports at the same time waits, also of another attempt, so that the bound holds.
        TrainingRun.objects.select_for_update(no_key=True).only("pk").get(pk=attempt.workload_id)
        known = RunOutput.objects.filter(workload=attempt.workload_id)
        if not known.filter(path=path).exists() and known.count() >= OUTPUTS_MAX:
            message = f"A run reports at most {OUTPUTS_MAX} outputs. A folder is one of them."
            raise Invalid.of_field("path", message, code="too_many_outputs")
        values = {"attempt": attempt.number, "size_bytes": size_bytes, "metrics": dict(metrics), "at": now}
        return RunOutput.objects.update_or_create(
            workload_id=attempt.workload_id, path=path, defaults=values
        )[0]


def found_outputs(workload: Workload, rows: Iterable[RunOutput]) -> Iterator[FoundOutput]:
    """Each with its place."""
    run: TrainingRun = workload.training_run
    spec = TrainingRunSpec.from_json(run.spec)
    namespace = workload.team.namespace_name
    helper = f"fetch-{workload.name}"[:NAME_LENGTH_MAX].rstrip("-")
    pods = _running_pods(workload)
    for row in rows:
        place = place_of(row.path, spec)
        if place is not None:
            fetch = fetched_from_claim(place, namespace=namespace, name=helper, user=spec.run_as_user)
        elif row.attempt in pods:
            fetch = fetched_from_pod(row.path, namespace=namespace, pod=pods[row.attempt])
        else:
            fetch = ""
        yield FoundOutput(row, place, fetch)


def _running_pods(workload: Workload) -> dict[int, str]:
    """The first pod of each attempt that runs, which is that of rank 0 where pods are numbered."""
    if workload.is_final:
        return {}
    rows = PodRecord.objects.filter(workload=workload, gone_at__isnull=True, phase="Running")
    return dict(rows.order_by("-name").values_list("attempt", "name"))
