"""What other bounds for the number of replicas mean for an endpoint's row and its claim."""

from __future__ import annotations

from datetime import datetime

from foundation.errors import Conflict
from inference.specs import EndpointSpec
from quotas.counters import mark_due
from quotas.errors import QuotaExceeded
from quotas.queries import held_claim
from quotas.services import resize
from workloads.models import Workload
from workloads.services import most_columns
from workloads.states import HOLDS_CLAIM, Phase


def claim_size(workload: Workload, spec: EndpointSpec, *, now: datetime) -> None:
    """The locked row's size, and a claim of at least that where it holds one: it shrinks as pods go.

    Conflict, with what the quota lacks, where it cannot grow.
    """
    units = spec.max_replicas * spec.gpus_per_replica
    most = most_columns(spec.pod_groups(spec.max_replicas))
    Workload.objects.filter(pk=workload.pk).update(units=units, pod_count=spec.min_replicas, **most)
    workload.units, workload.pod_count = units, spec.min_replicas
    # What it holds beyond that, since it was larger, goes with its pods and not before.
    if Phase(workload.phase) in HOLDS_CLAIM and (held := held_claim(workload)) is not None:
        larger = tuple(map(max, most.values(), held.most))
        try:
            resize(
                workload=workload,
                units=max(units, held.units),
                most=larger,
                lends=not workload.keeps_headroom,
                now=now,
            )
        except QuotaExceeded as error:
            of_units = f"a claim of {units}" if units else "more"
            message = f"{spec.max_replicas} replicas need {of_units}: {error.message}"
            raise Conflict.of_field("max_replicas", message, code="quota_exceeded") from error
    if workload.flavor_id is not None:
        mark_due(flavor_id=workload.flavor_id, capacity_type=workload.capacity_type, now=now)
