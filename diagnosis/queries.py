"""The diagnosis of a workload, and what changed since one that worked. Nothing here writes, or asks the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller.reconcile.adapters import adapter_for
from diagnosis.differences import Difference, differences
from diagnosis.findings import Cause
from diagnosis.gather import case_of
from diagnosis.judge import diagnose
from workloads.models import NodeRecord, PodRecord, Workload
from workloads.states import Phase

LOOKED_AT_MAX: Final = 100
_OF_A_NODE: Final = {
    "nvidia.com/gpu.product": "gpu",
    "nvidia.com/cuda.driver-version.full": "driver",
    "topology.kubernetes.io/zone": "zone",
}
_NUMBER_OF_NAME: Final = re.compile(r"(?:-\d+)+$")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The first of `causes` is the verdict."""

    workload: Workload
    attempt: int
    causes: list[Cause]
    wrote: frozenset[str]
    """Its pods whose program has started (of one that could not, runtimes report the year 1970): of others there is no log."""

    @property
    def verdict(self) -> Cause | None:
        return self.causes[0] if self.causes else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`asked` is what their requests differ in, `met` what they met: images, nodes, ends."""

    a: Workload
    b: Workload
    asked: list[Difference]
    met: list[Difference]


def diagnosis_of(workload: Workload, *, now: datetime, attempt: int | None = None) -> Diagnosis:
    """Why it failed or does not come up, in at most 9 queries. NotFound for an attempt that it has not had."""
    case = case_of(workload, now=now, attempt=attempt)
    wrote = frozenset(pod.name for pod in case.pods if pod.started_at and pod.started_at.year > 1970)
    return Diagnosis(workload, case.attempt, diagnose(case), wrote)


def last_that_worked(workload: Workload) -> Workload | None:
    """The newest other one of its team and kind that succeeded (of what does not end: that runs) under its name, numbers
    apart; None where there is none.
    """
    good = Phase.SUCCEEDED if workload.own_kind.ends else Phase.RUNNING
    rows = Workload.objects.filter(team=workload.team_id, kind=workload.kind, phase=good.value)
    newest = rows.exclude(pk=workload.pk).order_by("-created_at", "-id").values_list("pk", "name")
    stem = _stem(workload.name)
    key = next((pk for pk, name in newest[:LOOKED_AT_MAX] if _stem(name) == stem), None)
    return None if key is None else Workload.objects.select_related("team", "flavor", "owner").get(pk=key)


def compare(a: Workload, b: Workload) -> Comparison:
    """What changed from `a` to `b`. Who may see them is for the caller to say."""
    asked = differences(_asked(a), _asked(b))
    return Comparison(a, b, asked, differences(_met(a), _met(b)))


def _stem(name: str) -> str:
    return _NUMBER_OF_NAME.sub("", name)


def _asked(workload: Workload) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = adapter_for(workload.kind).asked(workload).to_json()
    return {
        **spec,
        "priority": workload.priority,
        "time_limit_seconds": workload.time_limit_seconds,
        "team": workload.team.slug,
    }


def _met(workload: Workload) -> Mapping[str, Any]:
    pods = list(
        PodRecord.objects.filter(workload=workload, attempt=workload.attempt_number).order_by("id")[:200]
    )
    names = {pod.node_name for pod in pods if pod.node_name}
    nodes = NodeRecord.objects.of(workload.cluster).filter(name__in=names)
    labels = [row.labels for row in nodes] if names else []
    digests = sorted({pod.image_digest or pod.image_id for pod in pods if pod.image_id})
    codes = sorted({str(pod.exit_code) for pod in pods if pod.exit_code is not None})
    return {
        "capacity_type": workload.capacity_type,
        "image_digest": ", ".join(digests),
        "nodes": ", ".join(sorted(names)),
        "exit_codes": ", ".join(codes),
        "phase": workload.phase,
        "reason": workload.reason,
        "attempts": workload.attempt_number,
        **{
            word: ", ".join(sorted({str(item[label]) for item in labels if label in item}))
            for label, word in _OF_A_NODE.items()
        },
    }
