"""REST: `teams/{slug}/quotas/ usage/ policy/`, `queues/`, `cohorts/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http import filters
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from quotas import limits
from quotas.api.lookups import cohort_named, flavor_named, members_by_cohort, queue_of
from quotas.api.request_serializers import (
    CohortCreateSerializer,
    CohortLimitsWriteSerializer,
    CohortUpdateSerializer,
    PolicySerializer,
    QuotaWriteSerializer,
    ReasonSerializer,
    limits_of,
)
from quotas.api.response_serializers import (
    CohortLimitsSerializer,
    CohortSerializer,
    PolicyAnswerSerializer,
    QueueSerializer,
    QuotaSerializer,
    UsageSerializer,
)
from quotas.checks import check_manager_or_lead
from quotas.models import Claim, ClaimState, Cohort, CohortUsage, Fence, Quota, TeamPolicy
from quotas.queries import policy_of, team_quotas
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken, Team
from teams.permissions import check_global_role, team_for

NO_CONTENT = OpenApiResponse(description="Done.")


class TeamQuotasView(PortalView):
    """What a team may use, uses now, borrows and lends."""

    queryset = Quota.objects.none()
    serializer_class = QuotaSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"flavor": filters.text("flavor__name"), "capacity": filters.text("capacity_type")}
    ordering = "id"

    @extend_schema(operation_id="quotas_list", tags=["quotas"], responses=QuotaSerializer(many=True))
    def get(self, request: Any, slug: str) -> Response:
        team = team_for(request.user, slug)
        rows = self.paginate_queryset(self.filter_queryset(Quota.objects.filter(team=team))) or []
        return self.get_paginated_response(_described(team, [row.pk for row in rows]))

    @extend_schema(
        operation_id="quotas_set", tags=["quotas"], request=QuotaWriteSerializer, responses=QuotaSerializer
    )
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        """Set limits of a flavor and capacity type, with a reason that is kept; what is left out stays."""
        team = team_for(request.user, slug)
        check_global_role(request.user, "quota-manager")
        values = self.read(QuotaWriteSerializer)
        quota = limits.set_limits(
            team=team,
            flavor=flavor_named(values["flavor"]),
            capacity_type=values["capacity"],
            limits=limits_of(values),
            reason=values["reason"],
            actor=actor_of(request),
            now=clock.now(),
        )
        return Response(_described(team, [quota.pk])[0])


def _described(team: Team, quota_ids: list[int]) -> list[dict[str, Any]]:
    """The answers about these quotas of the team, in this order."""
    figures = {quota.quota.pk: quota for quota in team_quotas(team)}
    fence = Fence.objects.filter(team=team).first()
    quotas = [figures[pk] for pk in quota_ids if pk in figures]
    return list(QuotaSerializer(quotas, many=True, context={"fence": fence}).data)


class TeamUsageView(PortalView):
    """Who holds what of a team's quotas, newest first."""

    queryset = Claim.objects.none()
    serializer_class = UsageSerializer
    filters = {"flavor": filters.text("quota__flavor__name")}

    @extend_schema(operation_id="usage_list", tags=["quotas"], responses=UsageSerializer(many=True))
    def get(self, request: Any, slug: str) -> Response:
        team = team_for(request.user, slug)
        held = Claim.objects.filter(quota__team=team).exclude(state=ClaimState.RELEASED)
        return self.page(held.select_related("workload__owner", "quota__flavor"))


class TeamPolicyView(PortalView):
    """A team's own rules of admission: its weight, who may use priority high, whether others see its name."""

    queryset = TeamPolicy.objects.none()
    serializer_class = PolicyAnswerSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="team_policy_read", tags=["quotas"], responses=PolicyAnswerSerializer)
    def get(self, request: Any, slug: str) -> Response:
        check_query_parameters(request, ())
        return Response(PolicyAnswerSerializer(policy_of(team_for(request.user, slug))).data)

    @extend_schema(
        operation_id="team_policy_update",
        tags=["quotas"],
        request=PolicySerializer,
        responses=PolicyAnswerSerializer,
    )
    def patch(self, request: Any, slug: str) -> Response:
        """Change a team's rules; what is left out stays as it is."""
        team = team_for(request.user, slug)
        check_global_role(request.user, "quota-manager")
        changes = self.read(PolicySerializer, partial=True)
        policy = limits.set_policy(team=team, changes=changes, actor=actor_of(request), now=clock.now())
        return Response(PolicyAnswerSerializer(policy).data)


# --- queues


class QueueView(PortalView):
    """A team's queue: whether it is stopped, by whom and why, and what waits in it."""

    queryset = TeamPolicy.objects.none()
    serializer_class = QueueSerializer

    @extend_schema(operation_id="queues_read", tags=["quotas"], responses=QueueSerializer)
    def get(self, request: Any, slug: str) -> Response:
        check_query_parameters(request, ())
        return Response(QueueSerializer(queue_of(team_for(request.user, slug))).data)


class QueueStopView(PortalView):
    """Admit nothing more of a team; what runs goes on."""

    queryset = TeamPolicy.objects.none()
    serializer_class = QueueSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(
        operation_id="queues_stop", tags=["quotas"], request=ReasonSerializer, responses=QueueSerializer
    )
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        team = team_for(request.user, slug)
        check_manager_or_lead(actor_of(request), team)
        reason = self.read(ReasonSerializer)["reason"]
        limits.stop_queue(team=team, reason=reason, actor=actor_of(request), now=clock.now())
        return Response(QueueSerializer(queue_of(team)).data)


class QueueStartView(PortalView):
    """Admit what waits in a team's queue again."""

    queryset = TeamPolicy.objects.none()
    serializer_class = QueueSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="queues_start", tags=["quotas"], request=None, responses=QueueSerializer)
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        team = team_for(request.user, slug)
        limits.start_queue(team=team, actor=actor_of(request), now=clock.now())
        return Response(QueueSerializer(queue_of(team)).data)


# --- cohorts


class CohortListView(PortalView):
    """The cohorts that there are, with those of their members that the caller may know of."""

    queryset = Cohort.objects.none()
    serializer_class = CohortSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"name": filters.text("name"), "parent": filters.text("parent__name")}
    ordering_fields = ("name",)
    ordering = "name"

    @extend_schema(operation_id="cohorts_list", tags=["quotas"], responses=CohortSerializer(many=True))
    def get(self, request: Any) -> Response:
        rows = self.paginate_queryset(self.filter_queryset(Cohort.objects.select_related("parent"))) or []
        return self.get_paginated_response(_cohorts(request, rows))

    @extend_schema(
        operation_id="cohorts_create",
        tags=["quotas"],
        request=CohortCreateSerializer,
        responses={201: CohortSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Make a cohort; teams join it by their own `cohort`."""
        check_global_role(request.user, "quota-manager")
        values = self.read(CohortCreateSerializer)
        cohort = limits.create_cohort(
            name=values["name"], parent=_parent(values), actor=actor_of(request), now=clock.now()
        )
        location = request.build_absolute_uri(f"{request.path}{cohort.name}/")
        return Response(_cohorts(request, [cohort])[0], status=201, headers={"Location": location})


class CohortView(PortalView):
    """One cohort, with those of its members that the caller may know of."""

    queryset = Cohort.objects.none()
    serializer_class = CohortSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="cohorts_read", tags=["quotas"], responses=CohortSerializer)
    def get(self, request: Any, name: str) -> Response:
        check_query_parameters(request, ())
        return Response(_cohorts(request, [cohort_named(name)])[0])

    @extend_schema(
        operation_id="cohorts_update",
        tags=["quotas"],
        request=CohortUpdateSerializer,
        responses=CohortSerializer,
    )
    def patch(self, request: Any, name: str) -> Response:
        """Move a cohort below another, or with `parent: null` out of it."""
        check_global_role(request.user, "quota-manager")
        cohort = cohort_named(name)
        values = self.read(CohortUpdateSerializer, partial=True)
        if "parent" in values:
            limits.move_cohort(
                cohort=cohort, parent=_parent(values), actor=actor_of(request), now=clock.now()
            )
        return Response(_cohorts(request, [cohort_named(name)])[0])

    @extend_schema(operation_id="cohorts_delete", tags=["quotas"], responses={204: NO_CONTENT})
    def delete(self, request: Any, name: str) -> Response:
        """Delete a cohort that no team and no other cohort is in."""
        check_global_role(request.user, "quota-manager")
        limits.delete_cohort(cohort=cohort_named(name), actor=actor_of(request), now=clock.now())
        return Response(status=204)


class CohortLimitsView(PortalView):
    """What a cohort lends and borrows of each flavor and capacity type, members together."""

    queryset = CohortUsage.objects.none()
    serializer_class = CohortLimitsSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"flavor": filters.text("flavor__name"), "capacity": filters.text("capacity_type")}
    ordering = "id"

    @extend_schema(
        operation_id="cohort_limits_list", tags=["quotas"], responses=CohortLimitsSerializer(many=True)
    )
    def get(self, request: Any, name: str) -> Response:
        rows = CohortUsage.objects.filter(cohort=cohort_named(name))
        return self.page(rows.select_related("cohort", "flavor"))

    @extend_schema(
        operation_id="cohort_limits_set",
        tags=["quotas"],
        request=CohortLimitsWriteSerializer,
        responses=CohortLimitsSerializer,
    )
    @idempotent()
    def post(self, request: Any, name: str) -> Response:
        """Set what the cohort may borrow from and lend to its parent; what is left out stays."""
        check_global_role(request.user, "quota-manager")
        cohort = cohort_named(name)
        values = self.read(CohortLimitsWriteSerializer)
        flavor, capacity_type = flavor_named(values["flavor"]), values["capacity"]
        known = CohortUsage.objects.filter(cohort=cohort, flavor=flavor, capacity_type=capacity_type).first()
        now_set = known or CohortUsage()
        usage = limits.set_cohort_limits(
            cohort=cohort,
            flavor=flavor,
            capacity_type=capacity_type,
            borrowing_limit=values.get("borrowing_limit", now_set.borrowing_limit),
            lending_limit=values.get("lending_limit", now_set.lending_limit),
            reason=values["reason"],
            actor=actor_of(request),
            now=clock.now(),
        )
        return Response(CohortLimitsSerializer(usage).data)


def _parent(values: dict[str, Any]) -> Cohort | None:
    name = values.get("parent")
    return None if name is None else cohort_named(name, field="parent")


def _cohorts(request: Any, cohorts: list[Cohort]) -> list[dict[str, Any]]:
    context = {"members": members_by_cohort(request.user)}
    return list(CohortSerializer(cohorts, many=True, context=context).data)
