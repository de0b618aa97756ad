"""REST: `idle/`, `alerts/`, `alert-rules/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response

from foundation import clock
from foundation.errors import NotFound
from foundation.http import filters
from foundation.http.etag import expected_versions, with_etag
from foundation.http.query import check_query_parameters
from teams.actors import actor_of
from teams.api.base import PART, PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role
from telemetry.models import Alert, AlertRule, IdleHold
from telemetry.queries import (
    idle_list,
    rule_in_force,
    rules_shown_to,
    version_of_rule,
    visible_alerts,
    visible_holds,
)
from telemetry.rules import NAMES, GpuRule
from telemetry.services import change_rule
from telemetry.size_advice import right_size_of
from telemetry.waste_serializers import (
    AlertRuleChangeSerializer,
    AlertRuleSerializer,
    AlertSerializer,
    IdleListSerializer,
    RightSizeSerializer,
)
from workloads.models import Workload


class RightSizeAction:
    """`right-size/` of a workload that the view set finds."""

    find: Callable[[Any, UUID], Workload]

    @extend_schema(summary="What one {one} should ask for the next time", responses=RightSizeSerializer)
    @action(detail=True, url_path="right-size", **PART)
    def right_size(self, request: Any, public_id: UUID) -> Response:
        """By what its GPUs did: fewer of them, or a smaller flavor, what that saves, and how sure it is."""
        check_query_parameters(request, ())
        found = right_size_of(self.find(request.user, public_id), now=clock.now())
        return Response(RightSizeSerializer(found).data)


class IdleView(PortalView):
    """GPUs that pods of the caller's teams hold and do nothing with, as last seen: who, since when, at what price an hour."""

    queryset = IdleHold.objects.none()
    serializer_class = IdleListSerializer
    pagination_class = None  # type: ignore[assignment] # not a list of pages

    filters = {"team": filters.text("team__slug"), "owner": filters.text("workload__owner__username")}

    @extend_schema(operation_id="idle_list", tags=["gpus"], responses=IdleListSerializer)
    def get(self, request: Any) -> Response:
        found = idle_list(self.filter_queryset(visible_holds(request.user)), now=clock.now())
        return Response(IdleListSerializer(found).data)


class AlertsView(PortalView):
    """Alerts about GPUs of the caller's teams, newest first."""

    queryset = Alert.objects.none()
    serializer_class = AlertSerializer
    filters = {
        "open": filters.boolean(
            "closed_at__isnull", description="Those that still hold, or those that have closed."
        ),
        "rule": filters.choice(NAMES, "rule", many=True),
        "team": filters.text("team__slug"),
    }
    ordering = "-opened_at"

    @extend_schema(operation_id="alerts_list", tags=["gpus"], responses=AlertSerializer(many=True))
    def get(self, request: Any) -> Response:
        return self.page(visible_alerts(request.user))


class AlertRulesView(PortalView):
    """The rules by which alerts open, as far as they are about the caller's teams; `idle` also finds the idle holds."""

    queryset = AlertRule.objects.none()
    serializer_class = AlertRuleSerializer
    pagination_class = None  # type: ignore[assignment] # there are as many as there are

    @extend_schema(operation_id="alert_rules_list", tags=["gpus"], responses=AlertRuleSerializer(many=True))
    def get(self, request: Any) -> Response:
        check_query_parameters(request, ())
        return Response(AlertRuleSerializer(rules_shown_to(request.user), many=True).data)


class AlertRuleView(PortalView):
    queryset = AlertRule.objects.none()
    serializer_class = AlertRuleSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"patch"})

    @extend_schema(operation_id="alert_rules_read", tags=["gpus"], responses=AlertRuleSerializer)
    def get(self, request: Any, name: str) -> Response:
        """One rule, if it is about a team of the caller."""
        check_query_parameters(request, ())
        rule = next((each for each in rules_shown_to(request.user) if each.name == name), None)
        if rule is None:
            raise NotFound("There is no such rule.")
        return _answer(rule)

    @extend_schema(
        operation_id="alert_rules_update",
        tags=["gpus"],
        request=AlertRuleChangeSerializer,
        responses=AlertRuleSerializer,
    )
    def patch(self, request: Any, name: str) -> Response:
        """Change a rule's threshold, window or scope, or turn it off; for quota managers."""
        check_global_role(request.user, "quota-manager")
        rule_in_force(name)
        rule = change_rule(
            name=name,
            changes=self.read(AlertRuleChangeSerializer, partial=True),
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return _answer(rule)


def _answer(rule: GpuRule) -> Response:
    """Its version is that of the whole rule, also where the caller sees only some of its teams."""
    version = version_of_rule(rule_in_force(rule.name))
    return with_etag(Response(AlertRuleSerializer(rule).data), version)
