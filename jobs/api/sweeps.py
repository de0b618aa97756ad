"""REST: `sweeps/`. One is made by `POST training-runs/` with a `matrix`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from console.api.list_filters import LIST_FILTERS
from foundation import clock
from foundation.http import filters
from foundation.http.etag import expected_versions, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from jobs.models import Sweep
from jobs.sweeps import queries
from jobs.sweeps.answers import SweepRowSerializer, SweepSerializer, SweepWaitingSerializer, shown
from jobs.sweeps.card import card_of_sweep
from jobs.sweeps.serializers import SweepPatchSerializer
from jobs.sweeps.services import cancel_sweep, change_sweep
from teams.actors import actor_of
from teams.api.base import PortalView


class SweepListView(PortalView):
    """Sweeps: each the runs of one request with a matrix."""

    serializer_class = SweepRowSerializer
    filters = {
        "team": LIST_FILTERS["team"],
        "name": filters.text("name"),
        "owner": LIST_FILTERS["owner"],
        "ended": filters.Filter(
            lookup="finished_at__isnull",
            parse=lambda raw: not filters.boolean("").parse(raw),
            description="Whether all members have ended.",
            schema={"type": "boolean"},
        ),
    }
    ordering_fields = ("created_at",)
    ordering = "-created_at"

    @extend_schema(operation_id="sweeps_list", tags=["sweeps"], responses=SweepRowSerializer(many=True))
    def get(self, request: Any) -> Response:
        """Sweeps that the caller may see, newest first."""
        page = self.paginate_queryset(self.filter_queryset(queries.visible_sweeps(request.user))) or []
        rows: Any = queries.answers_of(page)
        return self.get_paginated_response(SweepRowSerializer(rows, many=True).data)


class _OfSweep(PortalView):
    queryset = Sweep.objects.none()
    serializer_class: Any = SweepSerializer

    def find(self, public_id: UUID) -> Sweep:
        """The sweep, or NotFound, which is also what a stranger is told."""
        user: Any = self.request.user
        return queries.sweep_for(user, public_id)

    def answer(self, sweep: Sweep, *, status: int = 200) -> Response:
        """The sweep as it is now; If-Match compares its version, which its own changes move."""
        fresh = self.find(sweep.public_id)
        shown_sweep = SweepSerializer(queries.detail_of(fresh, now=clock.now())).data
        response = Response(shown_sweep, status=status)
        return with_etag(response, fresh.version) if status == 200 else response


class SweepView(_OfSweep):
    honours_if_match = frozenset({"patch"})

    @extend_schema(operation_id="sweeps_read", tags=["sweeps"], responses=SweepSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        """One sweep: how far its members are, what they cost, and which is best."""
        check_query_parameters(request, ())
        return self.answer(self.find(public_id))

    @extend_schema(
        operation_id="sweeps_update", tags=["sweeps"], request=SweepPatchSerializer, responses=SweepSerializer
    )
    def patch(self, request: Any, public_id: UUID) -> Response:
        """Let more or fewer members of a sweep run at once."""
        sweep = self.find(public_id)
        values = self.read(SweepPatchSerializer)
        changed = change_sweep(
            sweep=sweep,
            max_parallel=values["max_parallel"],
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return self.answer(changed)


class SweepCancelView(_OfSweep):
    @extend_schema(
        operation_id="sweeps_cancel", tags=["sweeps"], request=None, responses={202: SweepSerializer}
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Cancel every member of a sweep that has not ended."""
        sweep = self.find(public_id)
        return self.answer(cancel_sweep(sweep=sweep, actor=actor_of(request), now=clock.now()), status=202)


class SweepWaitingView(_OfSweep):
    @extend_schema(operation_id="sweeps_waiting", tags=["sweeps"], responses=SweepWaitingSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        """Why the next member of a sweep waits and when it starts, and when the last one does; what all cost."""
        check_query_parameters(request, ())
        now = clock.now()
        detail = queries.detail_of(self.find(public_id), now=now)
        return Response(shown(card_of_sweep(detail, reader=request.user, now=now)))
