"""The REST answers that every kind of workload has. A kind subclasses `WorkloadViewSet` and gives it to a router."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin
from typing_extensions import override

from console.api.diagnosis import DiagnosisActions
from console.api.exports import CSV_SCHEMA, csv_of
from console.api.list_filters import LIST_FILTERS, search_in
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
    ReadWorkloadSerializer,
    SubmittedSerializer,
    WaitingSerializer,
    WorkloadRowSerializer,
    WorkloadSerializer,
)
from console.api.waits import (
    TIMEOUT,
    TIMEOUT_PARAMETER,
    WAIT_FOR,
    Waits,
    asked_wait,
    lead_to_live,
    wait_parameter,
)
from controller import services
from controller.hints import Hint
from controller.reconcile.adapters import adapter_for
from controller.reconcile.gather_placement import placement_of
from controller.waiting_card import Card
from foundation import clock
from foundation.errors import NotFound
from foundation.http import rates
from foundation.http.chosen import FIELDS, chosen_fields, fields_parameter
from foundation.http.csv_files import CsvRenderer
from foundation.http.etag import expected_versions, with_etag
from foundation.http.filters import Filter, several
from foundation.http.idempotency import idempotent
from foundation.http.pages import CursorPage
from foundation.http.query import check_query_parameters, one, refuse
from foundation.models import PlatformSettings
from logs.api import LogsAction
from quotas.api.response_serializers import DecisionSerializer
from quotas.queries import nameable_teams
from teams.actors import actor_of
from teams.api.base import PART, PortalView
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

    def rows(self) -> QuerySet[Workload]:
        """All of the kind, with what an answer tells of each from rows beside it."""
        return Workload.objects.filter(kind=self.kind).select_related("team", "owner", "flavor")

    @property
    def summary_words(self) -> Mapping[str, str]:
        """What `{one}` and `{many}` are in the summaries of the OpenAPI document."""
        many = kind_of(self.kind).resource_path.replace("-", " ")
        return {"one": many.removesuffix("s"), "many": many}

    def seen_by(self, user: Any) -> QuerySet[Workload]:
        return self.rows().filter(of_visible_teams(user))

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

    def answers(
        self,
        workloads: Sequence[Workload],
        *,
        fields: Collection[str],
        expand: Collection[str] = EXPANSIONS,
        now: datetime,
    ) -> list[WorkloadAnswer]:
        """The workloads with what the fields tell of them; what no field tells is not asked for."""
        read = self.specs if "spec" in expand else self.short_specs
        specs = read(workloads) if _OF_SPEC & set(fields) else {}
        with_cost = "cost" in fields
        return answers_of(
            workloads, specs=specs, now=now, expand=expand, with_cost=with_cost, of_kind=self.of_kind
        )

    def of_kind(self, workload: Workload) -> Mapping[str, Any]:
        """The fields that only this kind has; `rows` has read what they tell."""
        return {}

    def answer(self, workload: Workload, *, hints: Sequence[Hint] = (), now: datetime) -> WorkloadAnswer:
        """The workload with all that REST tells of it."""
        (answer,) = self.answers([workload], fields=ReadWorkloadSerializer.names(), now=now)
        return replace(answer, hints=hints)

    def one(self, workload: Workload, *, fields: Collection[str] | None = None, now: datetime) -> Response:
        """The workload, or those fields of it; If-Match compares its generation, which moves with every wish and change
        of people alone.
        """
        chosen = ReadWorkloadSerializer.names() if fields is None else fields
        (answer,) = self.answers([workload], fields=chosen, now=now)
        shown = ReadWorkloadSerializer(answer, context={FIELDS: chosen}).data
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
        return self.created(serializer(answer).data, workload.own_kind.resource_of(public_id))


_OF_SPEC = frozenset({"spec", "kind"})
"""Fields that tell of the spec."""
EXPAND = OpenApiParameter(
    "expand",
    {"type": "array", "items": {"type": "string", "enum": sorted(EXPANSIONS)}},
    explode=False,
    description="What is to be there in whole, which a row of a list otherwise has not.",
)


ENDED: Final[Waits] = {"ended": lambda workload: workload.is_final}


class WorkloadViewSet(ViewSetMixin, LogsAction, DiagnosisActions, OfKind):
    """All that REST answers about the workloads of a kind. A kind subclasses it and adds what it alone has."""

    lookup_field = "public_id"
    lookup_value_converter = "uuid"

    filters: Mapping[str, Filter] = LIST_FILTERS
    extra_parameters = ("expand", FIELDS)
    honours_if_match = frozenset({"patch", "delete"})
    ordering_fields: ClassVar[dict[str, str]] = {
        "created_at": "created_at",
        "finished_at": "finished_at",
        "name": "name",
    }
    ordering = "-created_at"
    serializer_class = WorkloadRowSerializer
    waits: ClassVar[Waits] = ENDED

    @override
    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.action == "list":
            # Where it searches depends on who asks; what may be asked for does not.
            self.filters = {**self.filters, **search_in(self._searched_teams)}

    def _searched_teams(self) -> Collection[int] | None:
        return searched_teams(self.request.user, slugs=several(self.request, "team"))

    @override
    def get_queryset(self) -> QuerySet[Workload]:
        rows = self.seen_by(self.request.user)
        return rows.prefetch_related("attempts") if "attempts" in self.expand() else rows

    def expand(self) -> frozenset[str]:
        """What is asked for in whole: attempts also as one of the `fields`. Raises Malformed naming the parameter."""
        raw = one(self.request, "expand")
        wanted = frozenset() if raw is None else frozenset(raw.split(","))
        if not wanted <= EXPANSIONS:
            raise refuse("expand", f"must be of {', '.join(sorted(EXPANSIONS))}, separated by commas.")
        if FIELDS not in self.request.GET:
            return wanted
        chosen = chosen_fields(self.request, WorkloadRowSerializer)
        return (wanted | {"attempts"}) & chosen

    @override
    def get_renderers(self) -> list[Any]:
        renderers: list[Any] = super().get_renderers()
        return [*renderers, CsvRenderer()] if self.action == "list" else renderers

    @extend_schema(
        summary="List {many}",
        parameters=[EXPAND, fields_parameter(WorkloadRowSerializer)],
        responses={
            (200, "application/json"): WorkloadRowSerializer(many=True),
            (200, "text/csv"): CSV_SCHEMA,
        },
    )
    def list(self, request: Any) -> HttpResponseBase:
        """Those that the caller may see, newest first; with `Accept: text/csv` all of them as a file."""
        self.headers["Vary"] = "Accept"
        if isinstance(request.accepted_renderer, CsvRenderer):
            check_query_parameters(request, {*self.filters, "ordering"})
            found = CursorPage.ordered(self.filter_queryset(self.get_queryset()), request, self)
            rates.check(rates.Kind.EXPENSIVE, f"user:{request.user.pk}")
            return csv_of(found, kind=self.kind)
        fields, expand = chosen_fields(request, WorkloadRowSerializer), self.expand()
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        rows = self.answers(page, fields=fields, expand=expand, now=clock.now())
        shown = WorkloadRowSerializer(rows, many=True, context={"expand": expand, FIELDS: fields})
        return self.get_paginated_response(shown.data)

    @extend_schema(
        summary="One {one} as it is now",
        parameters=[fields_parameter(ReadWorkloadSerializer), wait_parameter(ENDED), TIMEOUT_PARAMETER],
        responses={
            200: ReadWorkloadSerializer,
            307: OpenApiResponse(description="To wait at the live process, with a ticket that opens once."),
        },
    )
    def retrieve(self, request: Any, public_id: UUID) -> HttpResponse:
        """One of them as it is now, or as soon as `wait_for` holds: phase, reason, spec, attempts, cost."""
        check_query_parameters(request, (FIELDS, WAIT_FOR, TIMEOUT))
        fields, now = chosen_fields(request, ReadWorkloadSerializer), clock.now()
        wait = asked_wait(request, self.waits, kind=self.kind, public_id=public_id, fields=fields)
        workload = self.find(request.user, public_id)
        if wait is not None and not wait.holds(workload, self.waits):
            return lead_to_live(request, wait, now=now)
        return self.one(workload, fields=fields, now=now)

    @extend_schema(summary="Cancel or delete one {one}", responses={204: None})
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

    @extend_schema(summary="Events of one {one}", responses=EventSerializer(many=True))
    @action(detail=True, serializer_class=EventSerializer, ordering="-id", **PART)
    def events(self, request: Any, public_id: UUID) -> Response:
        """Every move of the phase and change of its reason, newest first."""
        return self.page(self.find(request.user, public_id).events.all())

    @extend_schema(summary="Pods of one {one}", responses=PodSerializer(many=True))
    @action(detail=True, serializer_class=PodSerializer, ordering="id", **PART)
    def pods(self, request: Any, public_id: UUID) -> Response:
        """Every pod there ever was, oldest first, as the API server last described it."""
        return self.page(self.find(request.user, public_id).pods.all())

    @extend_schema(summary="Kubernetes manifests of one {one}", responses=ManifestsSerializer)
    @action(detail=True, **PART)
    def manifests(self, request: Any, public_id: UUID) -> Response:
        """The objects that the portal makes for it, without the Secret of its token."""
        check_query_parameters(request, ())
        return Response({"manifests": manifests_of(self.find(request.user, public_id))})

    @extend_schema(summary="Why one {one} waits, and when it starts", responses=WaitingSerializer)
    @action(detail=True, **PART)
    def waiting(self, request: Any, public_id: UUID) -> Response:
        """Why it waits, when it starts, what it costs and what would make it start sooner, by the code that admits it."""
        check_query_parameters(request, ())
        now = clock.now()
        workload = self.find(request.user, public_id)
        card = waiting_card(workload, reader=request.user, now=now) or card_without_queue(workload, now=now)
        return Response(WaitingSerializer(card).data)

    @extend_schema(summary="Decisions about one {one}", responses=DecisionSerializer(many=True))
    @action(detail=True, serializer_class=DecisionSerializer, ordering="-id", **PART)
    def decisions(self, request: Any, public_id: UUID) -> Response:
        """Why it was admitted, or had to wait: every verdict that was stored, newest first."""
        workload = self.find(request.user, public_id)
        named = nameable_teams(request.user)
        rows = self.paginate_queryset(self.filter_queryset(workload.decisions.select_related("workload")))
        shown = DecisionSerializer(rows, many=True, context={"named": named})
        return self.get_paginated_response(shown.data)

    @extend_schema(summary="Cost of one {one}", responses=CostDetailSerializer)
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
