"""Questions about endpoints; nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F

from controller.routes import Route
from inference.models import EndpointRevision, ScaleSample
from workloads.models import Attempt, Workload


def routes_to(workloads: Sequence[Workload]) -> dict[int, Route]:
    """How the endpoints' Services are reached, by the workloads' keys; in two queries.

    One is left out before its first attempt and while it is stopped.
    """
    open_attempts = Attempt.objects.filter(workload__in=workloads, ended_at__isnull=True)
    names = dict(open_attempts.values_list("workload", "object_name"))
    told = EndpointRevision.objects.filter(endpoint__in=names, number=F("endpoint__target"))
    revisions = {each.endpoint_id: each for each in told.select_related("endpoint")}
    return {
        each.pk: _route(each, names[each.pk], revisions[each.pk]) for each in workloads if each.pk in names
    }


def _route(workload: Workload, service: str, told: EndpointRevision) -> Route:
    endpoint, spec = told.endpoint, told.parsed
    return Route(
        public_id=workload.public_id,
        namespace=workload.team.namespace_name,
        service=service,
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
