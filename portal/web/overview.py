"""The first tab of an endpoint: what serves, how it scales, and how it is called."""

from __future__ import annotations

from typing import Any, Final

from controller.page_reading import Asked
from inference.models import Endpoint
from inference.queries import scale_samples
from inference.scaler_state import scaling_of
from portal.web.analytics import calls_of_range, decisions_of, replicas_chart
from portal.web.time_ranges import read_range

PODS_MAX: Final = 50


def overview_panel(asked: Asked) -> dict[str, Any]:
    """The revision that answers, the pods that are there, its scaler, and the last hour in two drawings."""
    endpoint = Endpoint.objects.get(workload=asked.workload)
    ports = endpoint.revisions.get(number=endpoint.serving).spec.get("ports") or {}
    pods = asked.workload.pods.filter(gone_at__isnull=True).exclude(phase__in=("Succeeded", "Failed"))
    shown = read_range({}, now=asked.now)
    samples = scale_samples(asked.workload, begin=shown.begin, end=shown.end)
    scaling = scaling_of(asked.workload, now=asked.now)
    return {
        "scaling": scaling,
        "charts": [
            replicas_chart(samples, decisions_of(samples), shown, now=asked.now),
            calls_of_range(asked.workload, shown, now=asked.now),
        ],
        "ports": [(name, port) for name, port in ports.items() if port],
        "live_pods": list(pods.order_by("-created_at", "-id")[:PODS_MAX]),
    }
