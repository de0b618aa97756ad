"""Questions about endpoints; nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F, Q, Subquery
from django.db.models.functions import Coalesce

from controller.routes import Route
from inference.models import EndpointRevision, ScaleSample
from workloads.models import Attempt, Workload


def routes_to(workloads: Sequence[Workload]) -> dict[int, Route]:
    """How the endpoints' Services are reached, by the workloads' keys; in two queries.

    One is left out before its first attempt and while it is stopped.
    """
    open_attempts = Attempt.objects.filter(workload__in=workloads, ended_at__isnull=True)
    names = dict(open_attempts.values_list("workload", "object_name"))
    of_route = Q(number=F("endpoint__target")) | Q(number=F("endpoint__revision"))
    rows = EndpointRevision.objects.filter(of_route, endpoint__in=names).select_related("endpoint")
    revisions = {(revision.endpoint_id, revision.number): revision for revision in rows}
    endpoints = {revision.endpoint_id: revision.endpoint for revision in rows}
    return {
        workload.pk: _route(
            workload,
            names[workload.pk],
            revisions[workload.pk, endpoints[workload.pk].target],
            revisions[workload.pk, endpoints[workload.pk].revision],
        )
        for workload in workloads
        if workload.pk in names
    }


def _route(workload: Workload, service: str, applied: EndpointRevision, wanted: EndpointRevision) -> Route:
    """Where what runs answers; its size and how often it may be called are as people want them now."""
    endpoint, spec = applied.endpoint, applied.parsed
    sized = spec if applied == wanted else applied.sized_as(wanted)
    return Route(
        public_id=workload.public_id,
        namespace=workload.team.namespace_name,
        service=service,
        port=spec.ports.http,
        timeout_seconds=spec.request_timeout_seconds,
        phase=workload.phase,
        reason=workload.reason,
        wakes=sized.scale_to_zero and not endpoint.scaler_paused,
        revision=endpoint.stable_revision or applied.number,
        rate=wanted.parsed.rate_limit,
    )


def scale_samples(workload: Workload, *, begin: datetime, end: datetime) -> list[ScaleSample]:
    """What was noted of its replicas from `begin` to `end`, oldest first, and the last that was noted before."""
    samples = ScaleSample.objects.filter(endpoint=workload.pk, at__lt=end)
    before = samples.filter(at__lt=begin).order_by("-at").values("at")[:1]
    return list(samples.filter(at__gte=Coalesce(Subquery(before), begin)).order_by("at", "id"))
