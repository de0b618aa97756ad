"""REST: `me/`, `teams/`, `teams/{slug}/members/`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http import filters
from foundation.http.etag import expected_versions, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from teams import permissions, queries, services
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.api.serializers import (
    CallerSerializer,
    MemberCreateSerializer,
    MemberSerializer,
    MemberUpdateSerializer,
    TeamCreateSerializer,
    TeamSerializer,
    TeamUpdateSerializer,
)
from teams.models import ApiToken, Membership, Team, TeamState

LEADS_FIELDS = frozenset({"name", "mlflow_tracking_uri"})
NO_CONTENT = OpenApiResponse(description="Done.")


class CallerView(PortalView):
    """Who the bearer of this request is."""

    serializer_class = CallerSerializer

    @extend_schema(operation_id="me_read", tags=["people"], responses=CallerSerializer)
    def get(self, request: Any) -> Response:
        check_query_parameters(request, ())
        return Response(CallerSerializer(queries.caller(request)).data)


class TeamListView(PortalView):
    queryset = Team.objects.none()
    serializer_class = TeamSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {
        "slug": filters.text("slug"),
        "cohort": filters.text("cohort_name"),
        "state": replace(filters.choice(TeamState.values, "", many=True), where=queries.in_states),
    }
    ordering_fields = ("slug", "name", "created_at")
    ordering = "slug"

    @extend_schema(operation_id="teams_list", tags=["people"], responses=TeamSerializer(many=True))
    def get(self, request: Any) -> Response:
        """The teams that the caller may see."""
        return self.page(permissions.visible_teams(request.user))

    @extend_schema(
        operation_id="teams_create",
        tags=["people"],
        request=TeamCreateSerializer,
        responses={201: TeamSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Make a team; platform admins alone."""
        permissions.check_global_role(request.user, "platform-admin")
        values = self.read(TeamCreateSerializer)
        team = services.create_team(actor=actor_of(request), now=clock.now(), **values)
        made = self.created(TeamSerializer(team).data, f"{request.path}{team.slug}/")
        return with_etag(made, team.version)


class TeamView(PortalView):
    queryset = Team.objects.none()
    serializer_class = TeamSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"patch", "delete"})

    @extend_schema(operation_id="teams_read", tags=["people"], responses=TeamSerializer)
    def get(self, request: Any, slug: str) -> Response:
        """One team."""
        check_query_parameters(request, ())
        team = permissions.team_for(request.user, slug)
        return with_etag(Response(TeamSerializer(team).data), team.version)

    @extend_schema(
        operation_id="teams_update", tags=["people"], request=TeamUpdateSerializer, responses=TeamSerializer
    )
    def patch(self, request: Any, slug: str) -> Response:
        """Change a team: its name and MLflow by its leads, its cohort by quota managers, the rest by platform admins."""
        team = permissions.team_for(request.user, slug)
        if not permissions.has_global_role(request.user, "quota-manager"):
            permissions.check_can_manage(request.user, team)
        changes = self.read(TeamUpdateSerializer, partial=True)
        _check_may_change(request.user, team, set(changes))
        updated = services.update_team(
            actor=actor_of(request), team=team, changes=changes, now=clock.now(),
            expected_versions=expected_versions(request),
        )  # fmt: skip
        return with_etag(Response(TeamSerializer(updated).data), updated.version)

    @extend_schema(operation_id="teams_delete", tags=["people"], responses={204: NO_CONTENT})
    def delete(self, request: Any, slug: str) -> Response:
        """Delete a team that nothing refers to; platform admins alone."""
        team = permissions.team_for(request.user, slug)
        permissions.check_global_role(request.user, "platform-admin")
        services.delete_team(
            actor=actor_of(request), team=team, now=clock.now(), expected_versions=expected_versions(request)
        )
        return Response(status=204)


class MemberListView(PortalView):
    queryset = Membership.objects.none()
    serializer_class = MemberSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {
        "username": filters.text("user__username"),
        "role": filters.choice(Membership.Role.values, "role", many=True),
    }
    ordering_fields = {"username": "username", "created_at": "created_at"}
    ordering = "username"

    @extend_schema(operation_id="team_members_list", tags=["people"], responses=MemberSerializer(many=True))
    def get(self, request: Any, slug: str) -> Response:
        """Who is in a team, and in which role."""
        return self.page(queries.members_of(permissions.team_for(request.user, slug)))

    @extend_schema(
        operation_id="team_members_create", tags=["people"],
        request=MemberCreateSerializer, responses={201: MemberSerializer},
    )  # fmt: skip
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        """Take a user into a team; by its leads."""
        team = permissions.team_for(request.user, slug)
        permissions.check_can_manage(request.user, team)
        values = self.read(MemberCreateSerializer)
        user = queries.user_named(values["username"])
        member = services.add_member(
            actor=actor_of(request), team=team, user=user, role=values["role"], now=clock.now()
        )
        return self.created(MemberSerializer(member).data, f"{request.path}{user.username}/")


class MemberView(PortalView):
    queryset = Membership.objects.none()
    serializer_class = MemberSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="team_members_read", tags=["people"], responses=MemberSerializer)
    def get(self, request: Any, slug: str, username: str) -> Response:
        """One member of a team."""
        check_query_parameters(request, ())
        return Response(
            MemberSerializer(queries.member_named(permissions.team_for(request.user, slug), username)).data
        )

    @extend_schema(
        operation_id="team_members_update", tags=["people"],
        request=MemberUpdateSerializer, responses=MemberSerializer,
    )  # fmt: skip
    def patch(self, request: Any, slug: str, username: str) -> Response:
        """Change a member's role; by the team's leads."""
        team = permissions.team_for(request.user, slug)
        permissions.check_can_manage(request.user, team)
        member = queries.member_named(team, username)
        values = self.read(MemberUpdateSerializer, partial=True)
        role = values.get("role", member.role)
        changed = services.change_role(actor=actor_of(request), membership=member, role=role, now=clock.now())
        return Response(MemberSerializer(changed).data)

    @extend_schema(operation_id="team_members_delete", tags=["people"], responses={204: NO_CONTENT})
    def delete(self, request: Any, slug: str, username: str) -> Response:
        """Take a member out of a team; by its leads, and by everybody for themselves."""
        team = permissions.team_for(request.user, slug)
        if username != request.user.username:  # everybody may leave
            permissions.check_can_manage(request.user, team)
        services.remove_member(
            actor=actor_of(request), membership=queries.member_named(team, username), now=clock.now()
        )
        return Response(status=204)


def _check_may_change(user: Any, team: Team, fields: set[str]) -> None:
    """A team's name and its MLflow are for its leads, its cohort for quota managers, the rest for platform admins."""
    if fields & LEADS_FIELDS or not fields:
        permissions.check_can_manage(user, team)
    if "cohort_name" in fields:
        permissions.check_global_role(user, "quota-manager")
    if fields - {*LEADS_FIELDS, "cohort_name"}:
        permissions.check_global_role(user, "platform-admin")
