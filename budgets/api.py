"""REST: `budgets/`, what is given on top of them, and a team's own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from budgets import services
from budgets.serializers import (
    BudgetChangeSerializer,
    BudgetPreviewSerializer,
    BudgetPreviewWriteSerializer,
    BudgetSerializer,
    BudgetWriteSerializer,
    OverrideSerializer,
    OverrideWriteSerializer,
    budget_values,
    micro_of,
)
from budgets.standings import budget_of, seen_by, standing
from costs.models import Budget, BudgetOverride
from costs.queries import spans_by_card
from foundation import clock
from foundation.errors import Invalid, NotFound
from foundation.http import filters
from foundation.http.etag import expected_versions, version_of, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken, Team
from teams.permissions import check_global_role, team_for, visible_teams


class BudgetListView(PortalView):
    """The budgets of the caller's teams, and how they stand."""

    queryset = Budget.objects.none()
    serializer_class = BudgetSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"team": filters.text("team__slug")}
    ordering = "id"

    @extend_schema(operation_id="budgets_list", tags=["costs"], responses=BudgetSerializer(many=True))
    def get(self, request: Any) -> Response:
        rows = self.paginate_queryset(self.filter_queryset(seen_by(request.user))) or []
        now, book = clock.now(), spans_by_card()
        standings: Any = [standing(row, now=now, price_book=book) for row in rows]
        return self.get_paginated_response(BudgetSerializer(standings, many=True).data)

    @extend_schema(
        operation_id="budgets_create",
        tags=["costs"],
        request=BudgetWriteSerializer,
        responses={201: BudgetSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Give a team a budget; what runs is promised money in the order of its admission."""
        check_global_role(request.user, "quota-manager")
        values = self.read(BudgetWriteSerializer)
        now = clock.now()
        budget = services.create_budget(
            team=_team(request, values["team"]),
            values=budget_values(values),
            actor=actor_of(request),
            now=now,
        )
        answer = BudgetSerializer(standing(budget, now=now)).data
        return with_etag(self.created(answer, f"{request.path}{budget.public_id}/"), version_of(budget))


class BudgetView(PortalView):
    queryset = Budget.objects.none()
    serializer_class = BudgetSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"patch", "delete"})

    @extend_schema(operation_id="budgets_read", tags=["costs"], responses=BudgetSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        """One budget, and how it stands."""
        check_query_parameters(request, ())
        return _shown(_budget(request, public_id))

    @extend_schema(
        operation_id="budgets_update",
        tags=["costs"],
        request=BudgetChangeSerializer,
        responses=BudgetSerializer,
    )
    def patch(self, request: Any, public_id: UUID) -> Response:
        """Change a budget; what is left out stays. All promises are made anew, in the order of admission: what gets none
        is stopped.
        """
        budget = _budget(request, public_id)
        check_global_role(request.user, "quota-manager")
        values = self.read(BudgetChangeSerializer, partial=True)
        changed = services.change_budget(
            budget=budget,
            changes=budget_values(values),
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return _shown(changed)

    @extend_schema(operation_id="budgets_delete", tags=["costs"], responses={204: None})
    def delete(self, request: Any, public_id: UUID) -> Response:
        """Remove a budget: nothing limits what its team spends any more."""
        budget = _budget(request, public_id)
        check_global_role(request.user, "quota-manager")
        services.delete_budget(
            budget=budget,
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return Response(status=204)


class BudgetPreviewView(PortalView):
    queryset = Budget.objects.none()
    serializer_class = BudgetPreviewSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(
        operation_id="budgets_preview",
        tags=["costs"],
        request=BudgetPreviewWriteSerializer,
        responses=BudgetPreviewSerializer,
    )
    def post(self, request: Any) -> Response:
        """What a budget would do, or the change of the one the team has: what is spent, and what would be stopped or wait.
        Nothing is changed.
        """
        check_global_role(request.user, "quota-manager")
        values = self.read(BudgetPreviewWriteSerializer)
        team, now = _team(request, values["team"]), clock.now()
        answer = services.preview(
            team=team,
            budget=budget_of(team, now=now),
            values=budget_values(values),
            actor=actor_of(request),
            now=now,
        )
        return Response(BudgetPreviewSerializer(answer).data)


class BudgetOverridesView(PortalView):
    """What was given on top of a budget, newest first."""

    queryset = BudgetOverride.objects.none()
    serializer_class = OverrideSerializer
    write_scope = ApiToken.Scope.MANAGE
    ordering = "-id"

    @extend_schema(
        operation_id="budget_overrides_list", tags=["costs"], responses=OverrideSerializer(many=True)
    )
    def get(self, request: Any, public_id: UUID) -> Response:
        return self.page(BudgetOverride.objects.filter(budget=_budget(request, public_id)))

    @extend_schema(
        operation_id="budget_overrides_create",
        tags=["costs"],
        request=OverrideWriteSerializer,
        responses={201: OverrideSerializer},
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Give an amount on top in the present period, with a reason that is kept, until it expires."""
        budget = _budget(request, public_id)
        check_global_role(request.user, "quota-manager")
        values = self.read(OverrideWriteSerializer)
        override = services.give_on_top(
            budget=budget,
            amount_micro_usd=micro_of(values["amount_usd"]),
            reason=values["reason"],
            expires_at=values.get("expires_at"),
            actor=actor_of(request),
            now=clock.now(),
        )
        return self.created(OverrideSerializer(override).data, request.path)


class TeamBudgetView(PortalView):
    queryset = Budget.objects.none()
    serializer_class = BudgetSerializer

    @extend_schema(operation_id="team_budget_read", tags=["costs"], responses=BudgetSerializer)
    def get(self, request: Any, slug: str) -> Response:
        """The team's budget that holds now; 404 where it has none."""
        check_query_parameters(request, ())
        team = team_for(request.user, slug)
        budget = budget_of(team, now=clock.now())
        if budget is None:
            raise NotFound(f"Team {team.slug} has no budget now.", code="no_budget")
        return _shown(budget)


def _budget(request: Any, public_id: UUID) -> Budget:
    budget = seen_by(request.user).filter(public_id=public_id).first()
    if budget is None:
        raise NotFound("There is no such budget.")
    return budget


def _team(request: Any, slug: str) -> Team:
    team = visible_teams(request.user).filter(slug=slug).first()
    if team is None:
        raise Invalid.of_field("team", f"There is no team {slug}.", code="unknown_team")
    return team


def _shown(budget: Budget) -> Response:
    answer = BudgetSerializer(standing(budget, now=clock.now())).data
    return with_etag(Response(answer), version_of(budget))
