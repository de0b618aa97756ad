"""The first tab of an endpoint: what serves, how it scales, and how it is called."""

from __future__ import annotations

from typing import Any, Final

from controller.page_panels import Asked
from inference.models import Endpoint

PODS_MAX: Final = 50


def overview_panel(asked: Asked) -> dict[str, Any]:
    """The revision that is wanted, and the pods that are there."""
    revision = Endpoint.objects.get(workload=asked.workload).current
    pods = asked.workload.pods.filter(gone_at__isnull=True).exclude(phase__in=("Succeeded", "Failed"))
    return {
        "revision": revision,
        "ports": [(name, port) for name, port in (revision.spec.get("ports") or {}).items() if port],
        "live_pods": list(pods.order_by("-created_at", "-id")[:PODS_MAX]),
    }
