"""The REST answers that every kind of workload has. A kind subclasses `WorkloadViewSet` and gives it to a router."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin
from typing_extensions import override

from console.api.list_filters import LIST_FILTERS, search_in
from console.api.logs import LogsAction
from console.api.representations import (
    EXPANSIONS,
    WorkloadAnswer,
    answers_of,
    card_without_queue,
    cost_detail,
    waiting_card,
)
from console.api.request_serializers import ContainerSerializer
from console.api.response_serializers import (
    SPEC_OF_A_ROW,
    CostDetailSerializer,
    EventSerializer,
    ManifestsSerializer,
    PodSerializer,
    SubmittedSerializer,
    WaitingSerializer,
    WorkloadRowSerializer,
    WorkloadSerializer,
)
from controller import services
from controller.hints import Hint
from controller.reconcile.adapters import adapter_for
from controller.reconcile.gather_placement import placement_of
from controller.waiting_card import Card
from foundation import clock
from foundation.errors import NotFound
from foundation.http.etag import expected_versions, with_etag
from foundation.http.filters import Filter, several
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters, one, refuse
from foundation.models import PlatformSettings
from quotas.api.response_serializers import DecisionSerializer
from quotas.queries import nameable_teams
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.permissions import of_visible_teams, searched_teams, team_for
from workloads.kinds import kind_of
from workloads.models import Workload
from workloads.placement import Placement
from workloads.podspec.pod_template import ManifestSet
from workloads.watches import Watches, followed_kinds


class OfKind(PortalView):
    """Which workloads a view is about, and who may know of them."""

    kind: ClassVar[str]
    spec_key: ClassVar[str]
    """In the rows of specs, the key of the workload."""

    def seen_by(self, user: Any) -> QuerySet[Workload]:
        rows = Workload.objects.filter(of_visible_teams(user), kind=self.kind)
        return rows.select_related("team", "owner", "flavor")

    def find(self, user: Any, public_id: UUID) -> Workload:
        """The workload, or NotFound, which is also the answer to a stranger."""
        workload = self.seen_by(user).filter(public_id=public_id).first()
        if workload is None:
            raise NotFound(f"There is no such {kind_of(self.kind).noun}.")
        return workload

    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[Any]:
        """The rows whose `spec` is that of each of the workloads."""
        raise NotImplementedError

    def specs(self, workloads: Sequence[Workload]) -> Mapping[int, Mapping[str, Any]]:
        """The specs of the workloads, by their keys."""
        return dict(self.spec_rows(workloads).values_list(self.spec_key, "spec"))

    def short_specs(self, workloads: Sequence[Workload]) -> Mapping[int, Mapping[str, Any]]:
        """What a row of a list tells of them: the rest, source files above all, does not leave the database."""
        rows = self.spec_rows(workloads).values(self.spec_key, *(f"spec__{name}" for name in SPEC_OF_A_ROW))
        return {
            row[self.spec_key]: {
                name: row[f"spec__{name}"] for name in SPEC_OF_A_ROW if row[f"spec__{name}"] is not None
            }
            for row in rows
        }

    def answer(self, workload: Workload, *, hints: Sequence[Hint] = (), now: datetime) -> WorkloadAnswer:
        """The workload with all that REST tells of it."""
        (answer,) = answers_of([workload], specs=self.specs([workload]), now=now)
        return replace(answer, hints=hints)

    def one(self, workload: Workload, *, now: datetime) -> Response:
        """The workload; If-Match compares its generation, which moves with every wish and change of people alone."""
        shown = WorkloadSerializer(self.answer(workload, now=now)).data
        return with_etag(Response(shown), workload.generation)

    def accepted(self, public_id: UUID, *, now: datetime) -> Response:
        """202 with the workload, in which a wish shows before it is fulfilled."""
        workload = self.find(self.request.user, public_id)
        return Response(WorkloadSerializer(self.answer(workload, now=now)).data, status=202)

    def made(self, public_id: UUID, *, hints: Sequence[Hint] | None = None, now: datetime) -> Response:
        """201 with the new workload and its address; with the hints about its request where they are looked for."""
        workload = self.find(self.request.user, public_id)
        answer = self.answer(workload, hints=hints or (), now=now)
        serializer = WorkloadSerializer if hints is None else SubmittedSerializer
        # At the host that was asked: a client that follows to another one leaves its token behind.
        location = self.request.build_absolute_uri(answer.workload.own_kind.resource_of(public_id))
        return Response(serializer(answer).data, status=201, headers={"Location": location})


EXPAND = OpenApiParameter(
    "expand",
    {"type": "array", "items": {"type": "string", "enum": sorted(EXPANSIONS)}},
    explode=False,
    description="What is to be there in whole, which a row of a list otherwise has not.",
)
PART: Final[dict[str, Any]] = {
    "filters": {},
    "extra_parameters": (),
    "ordering_fields": {},
    "honours_if_match": frozenset(),
}
"""An answer about one workload is not searched as the list of all is."""


class WorkloadViewSet(ViewSetMixin, LogsAction, OfKind):
    """All that REST answers about the workloads of a kind. A kind subclasses it and adds what it alone has."""

    lookup_field = "public_id"
    lookup_value_converter = "uuid"

    filters: Mapping[str, Filter] = LIST_FILTERS
    extra_parameters = ("expand",)
    honours_if_match = frozenset({"patch", "delete"})
    ordering_fields: ClassVar[dict[str, str]] = {
        "created_at": "created_at",
        "finished_at": "finished_at",
        "name": "name",
    }
    ordering = "-created_at"
    serializer_class = WorkloadRowSerializer

    @override
    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.action == "list":
            # Where it searches depends on who asks; what may be asked for does not.
            self.filters = {**LIST_FILTERS, **search_in(self._searched_teams)}

    def _searched_teams(self) -> Collection[int] | None:
        return searched_teams(self.request.user, slugs=several(self.request, "team"))

    @override
    def get_queryset(self) -> QuerySet[Workload]:
        rows = self.seen_by(self.request.user)
        return rows.prefetch_related("attempts") if "attempts" in self.expand() else rows

    def expand(self) -> frozenset[str]:
        """What is asked for in whole. Raises Malformed naming the parameter."""
        raw = one(self.request, "expand")
        wanted = frozenset() if raw is None else frozenset(raw.split(","))
        if not wanted <= EXPANSIONS:
            raise refuse("expand", f"must be of {', '.join(sorted(EXPANSIONS))}, separated by commas.")
        return wanted

    @extend_schema(parameters=[EXPAND], responses=WorkloadRowSerializer(many=True))
    def list(self, request: Any) -> Response:
        """Those that the caller may see, newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        expand = self.expand()
        specs = self.specs(page) if "spec" in expand else self.short_specs(page)
        rows = answers_of(page, specs=specs, now=clock.now(), expand=expand)
        shown = WorkloadRowSerializer(rows, many=True, context={"expand": expand})
        return self.get_paginated_response(shown.data)

    @extend_schema(responses=WorkloadSerializer)
    def retrieve(self, request: Any, public_id: UUID) -> Response:
        """One of them as it is now: phase, reason, spec, attempts, cost."""
        check_query_parameters(request, ())
        return self.one(self.find(request.user, public_id), now=clock.now())

    @extend_schema(responses={204: None})
    def destroy(self, request: Any, public_id: UUID) -> Response:
        """Cancel: its pods get their grace period, then its objects are deleted. Of what has ended, at once."""
        workload = self.find(request.user, public_id)
        services.delete(
            workload=workload,
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return Response(status=204)

    @extend_schema(responses=EventSerializer(many=True))
    @action(detail=True, serializer_class=EventSerializer, ordering="-id", **PART)
    def events(self, request: Any, public_id: UUID) -> Response:
        """Every move of the phase and change of its reason, newest first."""
        return self.page(self.find(request.user, public_id).events.all())

    @extend_schema(responses=PodSerializer(many=True))
    @action(detail=True, serializer_class=PodSerializer, ordering="id", **PART)
    def pods(self, request: Any, public_id: UUID) -> Response:
        """Every pod there ever was, oldest first, as the API server last described it."""
        return self.page(self.find(request.user, public_id).pods.all())

    @extend_schema(responses=ManifestsSerializer)
    @action(detail=True, **PART)
    def manifests(self, request: Any, public_id: UUID) -> Response:
        """The objects that the portal makes for it, without the Secret of its token."""
        check_query_parameters(request, ())
        return Response({"manifests": manifests_of(self.find(request.user, public_id))})

    @extend_schema(responses=WaitingSerializer)
    @action(detail=True, **PART)
    def waiting(self, request: Any, public_id: UUID) -> Response:
        """Why it waits, when it starts, what it costs and what would make it start sooner, by the code that admits it."""
        check_query_parameters(request, ())
        now = clock.now()
        workload = self.find(request.user, public_id)
        card = waiting_card(workload, reader=request.user, now=now) or card_without_queue(workload, now=now)
        return Response(WaitingSerializer(card).data)

    @extend_schema(responses=DecisionSerializer(many=True))
    @action(detail=True, serializer_class=DecisionSerializer, ordering="-id", **PART)
    def decisions(self, request: Any, public_id: UUID) -> Response:
        """Why it was admitted, or had to wait: every verdict that was stored, newest first."""
        workload = self.find(request.user, public_id)
        named = nameable_teams(request.user)
        rows = self.paginate_queryset(self.filter_queryset(workload.decisions.select_related("workload")))
        shown = DecisionSerializer(rows, many=True, context={"named": named})
        return self.get_paginated_response(shown.data)

    @extend_schema(responses=CostDetailSerializer)
    @action(detail=True, **PART)
    def cost(self, request: Any, public_id: UUID) -> Response:
        """What it costs, and what each of its pods does."""
        check_query_parameters(request, ())
        workload = self.find(request.user, public_id)
        return Response(CostDetailSerializer(cost_detail(workload, now=clock.now())).data)


def command(wish: Callable[[Any, Workload, Any], None]) -> Callable[..., Response]:
    """An action by POST without a body that asks for something of the workload, which is the answer."""

    @wraps(wish)
    def commanded(view: WorkloadViewSet, request: Any, public_id: UUID) -> Response:
        wish(view, view.find(request.user, public_id), request)
        return view.accepted(public_id, now=clock.now())

    routed = action(detail=True, methods=["post"], url_path=wish.__name__.replace("_", "-"), **PART)(
        idempotent()(commanded)
    )
    return extend_schema(request=None, responses={202: WorkloadSerializer})(routed)


def previewed(request: Any, body: ContainerSerializer, preview: Callable[..., Card]) -> Response:
    """What submitting the body would do now, as the kind's service `preview` answers; makes nothing."""
    body.is_valid(raise_exception=True)
    now = clock.now()
    card = preview(
        spec=body.to_spec(),
        team=team_for(request.user, body.validated_data["team"], field="team"),
        user=request.user,
        now=now,
        replaces=body.replaced_id,
    )
    return Response(WaitingSerializer(card).data)


Make = Callable[[Placement], ManifestSet]
"""The objects of a workload in a place, as its adapter makes them, by what was read of it already."""


def manifests_of(
    workload: Workload, *, watches: Watches | None = None, make: Make | None = None
) -> list[dict[str, Any]]:
    """The manifests of the current attempt, or of the first one to come; by `watches` and `make` where the rows of
    those are read already.
    """
    adapter = adapter_for(workload.kind)
    number = max(workload.attempt_number, 1)
    name = adapter.object_name(workload, attempt=number)
    followed = (lambda: watches.kinds) if watches else followed_kinds
    with PlatformSettings.held(watches.settings if watches else None):
        placement = placement_of(workload, object_name=name, attempt=number, followed=followed)
        return (make(placement) if make else adapter.manifests(workload, placement)).all()
