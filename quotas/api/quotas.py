"""REST: `teams/{slug}/quotas/ usage/ policy/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http import filters
from foundation.http.etag import expected_versions, version_of, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from quotas import limits
from quotas.api.lookups import flavor_named
from quotas.api.request_serializers import (
    PolicySerializer,
    QuotaWriteSerializer,
    limits_of,
)
from quotas.api.response_serializers import (
    PolicyAnswerSerializer,
    QuotaSerializer,
    UsageSerializer,
)
from quotas.models import Claim, ClaimState, Fence, Quota, TeamPolicy
from quotas.queries import policy_of, team_quotas
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken, Team
from teams.permissions import check_global_role, team_for


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
    honours_if_match = frozenset({"patch"})

    @extend_schema(operation_id="team_policy_read", tags=["quotas"], responses=PolicyAnswerSerializer)
    def get(self, request: Any, slug: str) -> Response:
        check_query_parameters(request, ())
        return _policy(team_for(request.user, slug))

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
        limits.set_policy(
            team=team,
            changes=changes,
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return _policy(team)


def _policy(team: Team) -> Response:
    policy = policy_of(team)
    return with_etag(Response(PolicyAnswerSerializer(policy).data), version_of(policy))
