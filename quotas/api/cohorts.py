"""REST: `cohorts/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http import filters
from foundation.http.etag import check_version, expected_versions, version_of, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from quotas import limits
from quotas.api.lookups import cohort_named, flavor_named, members_by_cohort
from quotas.api.request_serializers import (
    CohortCreateSerializer,
    CohortLimitsWriteSerializer,
    CohortUpdateSerializer,
)
from quotas.api.response_serializers import (
    CohortLimitsSerializer,
    CohortSerializer,
)
from quotas.models import Cohort, CohortUsage
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role

NO_CONTENT = OpenApiResponse(description="Done.")


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
        return self.created(_cohorts(request, [cohort])[0], f"{request.path}{cohort.name}/")


class CohortView(PortalView):
    """One cohort, with those of its members that the caller may know of."""

    queryset = Cohort.objects.none()
    serializer_class = CohortSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"patch", "delete"})

    @extend_schema(operation_id="cohorts_read", tags=["quotas"], responses=CohortSerializer)
    def get(self, request: Any, name: str) -> Response:
        check_query_parameters(request, ())
        return _answer(request, cohort_named(name))

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
        expected = expected_versions(request)
        if "parent" in values:
            limits.move_cohort(
                cohort=cohort,
                parent=_parent(values),
                actor=actor_of(request),
                now=clock.now(),
                expected_versions=expected,
            )
        else:
            check_version(expected=expected, current=version_of(cohort))
        return _answer(request, cohort_named(name))

    @extend_schema(operation_id="cohorts_delete", tags=["quotas"], responses={204: NO_CONTENT})
    def delete(self, request: Any, name: str) -> Response:
        """Delete a cohort that no team and no other cohort is in."""
        check_global_role(request.user, "quota-manager")
        limits.delete_cohort(
            cohort=cohort_named(name),
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
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


def _answer(request: Any, cohort: Cohort) -> Response:
    return with_etag(Response(_cohorts(request, [cohort])[0]), version_of(cohort))


def _cohorts(request: Any, cohorts: list[Cohort]) -> list[dict[str, Any]]:
    context = {"members": members_by_cohort(request.user)}
    return list(CohortSerializer(cohorts, many=True, context=context).data)
