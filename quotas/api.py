"""REST: `teams/{slug}/quotas/`, `teams/{slug}/usage/`, `quota-changes/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.errors import Invalid
from foundation.http import filters
from foundation.http.idempotency import idempotent
from quotas import services
from quotas.models import Claim, ClaimState, Quota, QuotaChange
from quotas.serializers import QuotaChangeSerializer, QuotaSerializer, QuotaWriteSerializer, UsageSerializer
from teams.actors import actor_of
from teams.models import ApiToken
from teams.permissions import check_global_role, team_for, visible_teams
from teams.rest import PortalView
from workloads.models import ResourceFlavor


class TeamQuotasView(PortalView):
    """What a team may use, and uses now."""

    queryset = Quota.objects.none()
    serializer_class = QuotaSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"flavor": filters.text("flavor__name"), "capacity": filters.text("capacity_type")}
    ordering = "id"

    @extend_schema(operation_id="quotas_list", tags=["quotas"], responses=QuotaSerializer(many=True))
    def get(self, request: Any, slug: str) -> Response:
        team = team_for(request.user, slug)
        return self.page(Quota.objects.filter(team=team).select_related("team", "flavor"))

    @extend_schema(
        operation_id="quotas_set", tags=["quotas"], request=QuotaWriteSerializer, responses=QuotaSerializer
    )
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        """Set the nominal quota of a flavor and capacity type, with a reason that is kept."""
        team = team_for(request.user, slug)
        check_global_role(request.user, "quota-manager")
        values = self.read(QuotaWriteSerializer)
        flavor = ResourceFlavor.objects.filter(name=values["flavor"]).first()
        if flavor is None:
            raise Invalid.of_field("flavor", "There is no such flavor.", code="unknown_flavor")
        quota = services.set_nominal(
            team=team,
            flavor=flavor,
            capacity_type=values["capacity"],
            nominal=values["nominal"],
            reason=values["reason"],
            actor=actor_of(request),
            now=clock.now(),
        )
        return Response(QuotaSerializer(quota).data)


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


class QuotaChangesView(PortalView):
    """Every change of a quota, with who and why, newest first."""

    queryset = QuotaChange.objects.none()
    serializer_class = QuotaChangeSerializer
    filters = {"team": filters.text("team_slug"), "flavor": filters.text("flavor_name")}

    @extend_schema(
        operation_id="quota_changes_list", tags=["quotas"], responses=QuotaChangeSerializer(many=True)
    )
    def get(self, request: Any) -> Response:
        slugs = visible_teams(request.user).values("slug")
        return self.page(QuotaChange.objects.filter(team_slug__in=slugs))
