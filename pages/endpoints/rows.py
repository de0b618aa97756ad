"""What a line of the list of endpoints says besides what every workload's says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from foundation.number_words import percent_words
from gateway.series import Summary, summaries_since
from inference.models import EndpointRevision
from inference.pages.list_states import state_of
from pages.charts import number_words
from pages.endpoints.analytics import failed_percent
from workloads.models import PodRecord, Workload

LATELY: Final = timedelta(minutes=15)


def endpoint_rows(workloads: Sequence[Workload], now: datetime) -> Mapping[int, Mapping[str, Any]]:
    """Replicas that answer and may run, and what they run, and how each was called recently; in two queries."""
    ready = PodRecord.objects.filter(workload=OuterRef("endpoint"), gone_at__isnull=True, ready=True)
    counted = ready.order_by().values("workload").annotate(count=Count("id")).values("count")
    current = EndpointRevision.objects.filter(
        endpoint__workload__in=workloads, number=F("endpoint__revision")
    ).annotate(ready_pods=Coalesce(Subquery(counted), 0))
    known = {revision.endpoint_id: revision for revision in current}
    calls = summaries_since(workloads, since=now - LATELY)
    return {
        workload.pk: {
            "ready": known[workload.pk].ready_pods,
            "replicas": _replicas(known[workload.pk].spec),
            "image": known[workload.pk].spec["image"],
            "state": state_of(workload),
            "calls": calls.get(workload.pk),
            **_of_calls(calls.get(workload.pk)),
        }
        for workload in workloads
        if workload.pk in known
    }


def _of_calls(summary: Summary | None) -> dict[str, str]:
    """Requests a minute, the share that failed, and the 95th percentile, in words; empty where there was no call."""
    if summary is None:
        return {}
    per_minute = summary.requests / (LATELY / timedelta(minutes=1))
    return {
        "per_minute": number_words(per_minute),
        "failed": percent_words(failed_percent(summary)),
        "p95": "" if summary.p95 is None else f"{number_words(summary.p95 * 1000)} ms",
    }


def _replicas(spec: Mapping[str, Any]) -> str:
    """`3`, or `0 to 3` where a scaler chooses."""
    most = spec.get("max_replicas") or 1
    least = 0 if spec.get("scale_to_zero") else spec.get("min_replicas") or 1
    return f"{least} to {most}" if least != most else str(most)
