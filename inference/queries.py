"""Questions about endpoints; nothing here writes."""

from __future__ import annotations

from datetime import datetime

from controller.routes import Route
from inference.models import Endpoint, ScaleSample
from workloads.models import Workload


def route_to(workload: Workload) -> Route | None:
    """How the endpoint's Service is reached; None before its first attempt or while it is stopped."""
    attempt = workload.attempts.filter(ended_at__isnull=True).first()
    if attempt is None:
        return None
    endpoint = Endpoint.objects.get(workload=workload)
    told = endpoint.told
    spec = told.parsed
    return Route(
        public_id=workload.public_id,
        namespace=workload.team.namespace_name,
        service=attempt.object_name,
        port=spec.ports.http,
        timeout_seconds=spec.request_timeout_seconds,
        phase=workload.phase,
        reason=workload.reason,
        wakes=spec.scale_to_zero and not endpoint.scaler_paused,
        revision=endpoint.stable_revision or told.number,
        rate=spec.rate_limit,
    )


def scale_samples(workload: Workload, *, begin: datetime, end: datetime) -> list[ScaleSample]:
    """What was noted of its replicas from `begin` to `end`, oldest first, and the last that was noted before."""
    samples = ScaleSample.objects.filter(endpoint__workload=workload, at__lt=end)
    before = samples.filter(at__lt=begin).order_by("-at", "-id").first()
    within = samples.filter(at__gte=begin).order_by("at", "id")
    return [*([before] if before else []), *within]
