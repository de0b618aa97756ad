"""The REST views that every kind of workload has. An app subclasses them with its kind and its path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response
from typing_extensions import override

from console.api import response_serializers
from console.api.representations import (
    EXPANSIONS,
    describe,
    describe_card,
    describe_cost,
    describe_rows,
    describe_waiting,
)
from console.api.request_serializers import ContainerSerializer
from console.api.response_serializers import SPEC_OF_A_ROW
from controller import services
from controller.reconcile.adapters import adapter_for
from controller.reconcile.placements import placement_of
from controller.waiting_card import Card
from costs.queries import cost_lines, cost_of, spans_by_card
from foundation import clock
from foundation.errors import NotFound
from foundation.http.etag import check_version, expected_versions, with_etag
from foundation.http.filters import Filter, choice, reference, several, text, uuid
from foundation.http.idempotency import idempotent
from foundation.http.query import one, refuse
from foundation.models import PlatformSettings
from foundation.money import as_json
from quotas.api.lookups import describe_decision
from quotas.api.response_serializers import DecisionSerializer
from quotas.queries import nameable_teams
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import Team, User
from teams.permissions import of_visible_teams, searched_teams, team_for
from workloads.finding import (
    LABEL_LENGTH_MAX,
    LABEL_WORDS,
    SEARCH_LENGTH_MAX,
    SEARCH_WORDS,
    labelled,
    matching,
    parse_label,
    parse_search,
)
from workloads.kinds import kind_of
from workloads.models import ResourceFlavor, Workload
from workloads.placement import Placement
from workloads.podspec.pod_template import ManifestSet
from workloads.states import Phase, Priority
from workloads.watches import Watches, followed_kinds

LIST_FILTERS = {
    "team": reference("team", Team, "slug", many=True, description="Team slugs."),
    "phase": choice([phase.value for phase in Phase], "phase", many=True),
    "reason": text("reason", many=True),
    "name": text("name"),
    "owner": reference("owner", User, "username"),
    "flavor": reference("flavor", ResourceFlavor, "name", many=True),
    "capacity": text("capacity_type"),
    "priority": choice([priority.value for priority in Priority], "priority", many=True),
    "id": uuid("public_id"),
    "search": Filter(
        lookup="name",
        parse=parse_search,
        where=lambda values: matching(values[0]),
        description=SEARCH_WORDS,
        schema={"type": "string", "maxLength": SEARCH_LENGTH_MAX},
    ),
    "label": Filter(
        lookup="labels",
        parse=parse_label,
        many=True,
        where=labelled,
        description=LABEL_WORDS,
        schema={"type": "string", "maxLength": LABEL_LENGTH_MAX},
    ),
}


def search_in(teams: Callable[[], Collection[int] | None]) -> Filter:
    """`?search=` where only workloads of `teams` can be shown, None for all; they are asked for where somebody searches."""
    return replace(LIST_FILTERS["search"], where=lambda values: matching(values[0], teams=teams()))


class OfKind(PortalView):
    """Which workloads a view is about, and who may know of them."""

    kind: ClassVar[str]
    spec_key: ClassVar[str]
    """In the rows of specs, the key of the workload."""

    def visible(self, user: Any) -> QuerySet[Workload]:
        return self.seen_by(user).prefetch_related("attempts")

    def seen_by(self, user: Any) -> QuerySet[Workload]:
        rows = Workload.objects.filter(of_visible_teams(user), kind=self.kind)
        return rows.select_related("team", "owner", "flavor")

    def find(self, user: Any, public_id: UUID) -> Workload:
        """The workload, or NotFound, which is also what a stranger is told."""
        workload = self.visible(user).filter(public_id=public_id).first()
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

    def answer(self, workloads: Sequence[Workload], *, now: datetime) -> list[dict[str, Any]]:
        shapes = describe(workloads, specs=self.specs(workloads), now=now)
        return list(response_serializers.WorkloadSerializer(shapes, many=True).data)

    def one(self, workload: Workload, *, now: datetime) -> Response:
        """The workload with its ETag, which moves with every wish and change, not with what is observed."""
        return with_etag(Response(self.answer([workload], now=now)[0]), workload.generation)


EXPAND = OpenApiParameter(
    "expand",
    {"type": "array", "items": {"type": "string", "enum": list(EXPANSIONS)}},
    explode=False,
    description="What is to be there in whole, which a row of a list otherwise has not.",
)


class WorkloadListView(OfKind):
    """GET lists what the caller may see, newest first."""

    filters = LIST_FILTERS
    extra_parameters = ("expand",)
    ordering_fields: ClassVar[dict[str, str]] = {
        "created_at": "created_at",
        "finished_at": "finished_at",
        "name": "name",
    }
    ordering = "-created_at"
    serializer_class = response_serializers.WorkloadRowSerializer

    @override
    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # Where it searches depends on who asks; what may be asked for does not.
        self.filters = {**LIST_FILTERS, "search": search_in(self._searched_teams)}

    def _searched_teams(self) -> Collection[int] | None:
        return searched_teams(self.request.user, slugs=several(self.request, "team"))

    @override
    def get_queryset(self) -> QuerySet[Workload]:
        rows = self.seen_by(self.request.user)
        return rows.prefetch_related("attempts") if "attempts" in self.expand() else rows

    def list_page(self) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        expand = self.expand()
        specs = self.specs(page) if "spec" in expand else self.short_specs(page)
        rows = describe_rows(page, specs=specs, now=clock.now(), expand=expand)
        return self.get_paginated_response(response_serializers.WorkloadRowSerializer(rows, many=True).data)

    def expand(self) -> frozenset[str]:
        """What is asked for in whole. Raises Malformed naming the parameter."""
        raw = one(self.request, "expand")
        wanted = frozenset() if raw is None else frozenset(raw.split(","))
        if not wanted <= set(EXPANSIONS):
            raise refuse("expand", f"must be of {', '.join(EXPANSIONS)}, separated by commas.")
        return wanted


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
    return Response(response_serializers.WaitingSerializer(describe_card(card)).data)


class WorkloadDetailView(OfKind):
    @extend_schema(responses=response_serializers.WorkloadSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        """One of them as it is now: phase, reason, spec, attempts, cost."""
        return self.one(self.find(request.user, public_id), now=clock.now())

    @extend_schema(responses={204: None})
    def delete(self, request: Any, public_id: UUID) -> Response:
        """Cancel: its pods get their grace period, then its objects are deleted. Of what has ended, at once."""
        workload = self.find(request.user, public_id)
        check_version(expected=expected_versions(request), current=workload.generation)
        services.delete(workload=workload, actor=actor_of(request), now=clock.now())
        return Response(status=204)


class CommandView(OfKind):
    """POST asks for something; the answer is the workload, in which the wish shows before it is fulfilled."""

    @extend_schema(request=None, responses={202: response_serializers.WorkloadSerializer})
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        workload = self.find(request.user, public_id)
        self.command(workload, request)
        return Response(self.answer([self.find(request.user, public_id)], now=clock.now())[0], status=202)

    def command(self, workload: Workload, request: Any) -> None:
        raise NotImplementedError


class WorkloadCancelView(CommandView):
    @override
    def command(self, workload: Workload, request: Any) -> None:
        services.cancel(workload=workload, actor=actor_of(request), now=clock.now())


class WorkloadSuspendView(CommandView):
    @override
    def command(self, workload: Workload, request: Any) -> None:
        services.suspend(workload=workload, actor=actor_of(request), now=clock.now())


class WorkloadResumeView(CommandView):
    @override
    def command(self, workload: Workload, request: Any) -> None:
        services.resume(workload=workload, actor=actor_of(request), now=clock.now())


class WorkloadEventsView(OfKind):
    """Every move of the phase and change of its reason, newest first."""

    serializer_class = response_serializers.EventSerializer
    ordering = "-id"

    @extend_schema(responses=response_serializers.EventSerializer(many=True))
    def get(self, request: Any, public_id: UUID) -> Response:
        workload = self.find(request.user, public_id)
        return self.page(workload.events.all())


class WorkloadPodsView(OfKind):
    """Every pod there ever was, oldest first, as the API server last described it."""

    serializer_class = response_serializers.PodSerializer
    ordering = "id"

    @extend_schema(responses=response_serializers.PodSerializer(many=True))
    def get(self, request: Any, public_id: UUID) -> Response:
        workload = self.find(request.user, public_id)
        return self.page(workload.pods.all())


class WorkloadManifestsView(OfKind):
    """The objects that the portal makes for it, without the Secret of its token."""

    @extend_schema(responses=response_serializers.ManifestsSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        return Response({"manifests": manifests_of(self.find(request.user, public_id))})


class WorkloadWaitingView(OfKind):
    @extend_schema(responses=response_serializers.WaitingSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        now = clock.now()
        workload = self.find(request.user, public_id)
        card = describe_waiting(workload, reader=request.user, now=now)
        return Response(response_serializers.WaitingSerializer(card).data)


class WorkloadDecisionsView(OfKind):
    """Every verdict about it that was stored, newest first."""

    serializer_class = DecisionSerializer
    ordering = "-id"

    @extend_schema(responses=DecisionSerializer(many=True))
    def get(self, request: Any, public_id: UUID) -> Response:
        workload = self.find(request.user, public_id)
        named = nameable_teams(request.user)
        rows = self.paginate_queryset(self.filter_queryset(workload.decisions.select_related("workload")))
        shown = [describe_decision(each, named=named) for each in rows or []]
        return self.get_paginated_response(DecisionSerializer(shown, many=True).data)


class WorkloadCostView(OfKind):
    @extend_schema(responses=response_serializers.CostDetailSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        now = clock.now()
        return Response(
            response_serializers.CostDetailSerializer(
                cost_detail(self.find(request.user, public_id), now=now)
            ).data
        )


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


def cost_detail(workload: Workload, *, now: datetime) -> dict[str, Any]:
    """The totals, and a line a pod."""
    price_book = spans_by_card()
    found = cost_lines(workload, now=now, price_book=price_book)
    lines = [
        {
            "pod_uid": line.pod_uid,
            "node_name": line.node_name,
            "flavor": line.flavor_name,
            "units": line.units,
            "started_at": line.started_at,
            "ended_at": line.ended_at,
            "amount": as_json(line.amount_micro_usd),
            "settled": line.settled,
        }
        for line in found.lines
    ]
    cost = describe_cost(cost_of(workload, now=now, price_book=price_book))
    return {**cost, "lines": lines, "lines_complete": found.complete}
