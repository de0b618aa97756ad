"""What a line of the list of endpoints says besides what every workload's says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from inference.models import EndpointRevision
from workloads.models import PodRecord, Workload


def endpoint_rows(workloads: Sequence[Workload], _now: datetime) -> Mapping[int, Mapping[str, Any]]:
    """Replicas that answer and may run, and what they run; in one query."""
    ready = PodRecord.objects.filter(workload=OuterRef("endpoint"), gone_at__isnull=True, ready=True)
    counted = ready.order_by().values("workload").annotate(count=Count("id")).values("count")
    current = EndpointRevision.objects.filter(
        endpoint__workload__in=workloads, number=F("endpoint__revision")
    ).annotate(ready_pods=Coalesce(Subquery(counted), 0))
    known = {each.endpoint_id: each for each in current}
    return {
        each.pk: {
            "ready": known[each.pk].ready_pods,
            "replicas": _replicas(known[each.pk].spec),
            "image": known[each.pk].spec["image"],
        }
        for each in workloads
        if each.pk in known
    }


def _replicas(spec: Mapping[str, Any]) -> str:
    """`3`, or `0 to 3` where a scaler chooses."""
    most = spec.get("max_replicas") or 1
    least = 0 if spec.get("scale_to_zero") else spec.get("min_replicas") or 1
    return f"{least} to {most}" if least != most else str(most)
