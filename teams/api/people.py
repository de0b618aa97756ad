"""REST: `me/`, `teams/`, `teams/{slug}/members/`, `tokens/`, `audit/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.errors import FieldProblem, Invalid, NotAllowed, NotFound
from foundation.http import filters
from foundation.http.etag import expected_versions, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from foundation.models import PlatformSettings
from teams import permissions, platform_settings, queries, services
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.api.serializers import (
    AuditEventSerializer,
    CallerSerializer,
    MemberCreateSerializer,
    MemberSerializer,
    MemberUpdateSerializer,
    SettingsSerializer,
    SettingsUpdateSerializer,
    TeamCreateSerializer,
    TeamSerializer,
    TeamUpdateSerializer,
    TokenCreateSerializer,
    TokenSerializer,
    TokenWithSecretSerializer,
)
from teams.models import ApiToken, AuditEvent, Membership, Team

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
    filters = {"slug": filters.text("slug"), "cohort": filters.text("cohort_name")}
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
        location = request.build_absolute_uri(f"{request.path}{team.slug}/")
        return with_etag(
            Response(TeamSerializer(team).data, status=201, headers={"Location": location}), team.version
        )


class TeamView(PortalView):
    queryset = Team.objects.none()
    serializer_class = TeamSerializer
    write_scope = ApiToken.Scope.MANAGE

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
        location = request.build_absolute_uri(f"{request.path}{user.username}/")
        return Response(MemberSerializer(member).data, status=201, headers={"Location": location})


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


class TokenListView(PortalView):
    queryset = ApiToken.objects.none()
    serializer_class = TokenSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"name": filters.text("name"), "team": filters.text("team__slug")}
    ordering_fields = ("created_at", "expires_at", "last_used_at", "name")
    ordering = "-created_at"

    @extend_schema(operation_id="tokens_list", tags=["people"], responses=TokenSerializer(many=True))
    def get(self, request: Any) -> Response:
        """The caller's API tokens, without their values."""
        return self.page(queries.tokens_of(request.user))

    @extend_schema(
        operation_id="tokens_create", tags=["people"],
        request=TokenCreateSerializer, responses={201: TokenWithSecretSerializer},
    )  # fmt: skip
    @idempotent(store_body=False)
    def post(self, request: Any) -> Response:
        """Make an API token; its value is in this answer alone."""
        values = self.read(TokenCreateSerializer)
        _check_grants_no_more_than_it_has(request, values["scopes"])
        token, secret = services.create_token(
            actor=actor_of(request), user=request.user, name=values["name"], scopes=values["scopes"],
            expires_in_days=values["expires_in_days"], team=_token_team(request, values.get("team")), now=clock.now(),
        )  # fmt: skip
        token.secret = secret  # type: ignore[attr-defined]
        headers = {
            "Location": request.build_absolute_uri(f"{request.path}{token.public_id}/"),
            "Cache-Control": "no-store",
        }
        return Response(TokenWithSecretSerializer(token).data, status=201, headers=headers)


class TokenView(PortalView):
    queryset = ApiToken.objects.none()
    serializer_class = TokenSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="tokens_read", tags=["people"], responses=TokenSerializer)
    def get(self, request: Any, token_id: Any) -> Response:
        """One API token of the caller, without its value."""
        check_query_parameters(request, ())
        return Response(TokenSerializer(self._token(token_id)).data)

    @extend_schema(operation_id="tokens_revoke", tags=["people"], responses={204: NO_CONTENT})
    def delete(self, request: Any, token_id: Any) -> Response:
        """Revoke an API token of the caller."""
        services.revoke_token(actor=actor_of(request), token=self._token(token_id), now=clock.now())
        return Response(status=204)

    def _token(self, token_id: Any) -> ApiToken:
        token = queries.tokens_of(self.request.user).filter(public_id=token_id).first()  # type: ignore[arg-type]
        if token is None:
            raise NotFound("You have no such token.")
        return token


class AuditListView(PortalView):
    """What changed: in your teams and by you; everything with a global role."""

    queryset = AuditEvent.objects.none()
    serializer_class = AuditEventSerializer
    filters = {
        "team": filters.text("team_slug"),
        "actor": filters.text("actor_label"),
        "action": filters.text("action", many=True),
        "target_kind": filters.text("target_kind"),
        "target_id": filters.text("target_id"),
        "request_id": filters.text("request_id"),
        "from": filters.moment("at__gte"),
        "to": filters.moment("at__lt"),
    }
    ordering_fields = ("at",)
    ordering = "-at"

    @extend_schema(operation_id="audit_list", tags=["people"], responses=AuditEventSerializer(many=True))
    def get(self, request: Any) -> Response:
        return self.page(permissions.visible_audit_events(request.user).select_related("token"))


def _check_may_change(user: Any, team: Team, fields: set[str]) -> None:
    """A team's name and its MLflow are for its leads, its cohort for quota managers, the rest for platform admins."""
    if fields & LEADS_FIELDS or not fields:
        permissions.check_can_manage(user, team)
    if "cohort_name" in fields:
        permissions.check_global_role(user, "quota-manager")
    if fields - {*LEADS_FIELDS, "cohort_name"}:
        permissions.check_global_role(user, "platform-admin")


def _token_team(request: Any, slug: str | None) -> Team | None:
    if request.user.bound_team_id is not None:
        team = permissions.visible_teams(request.user).first()
        if team is None or slug not in (None, team.slug):
            raise NotAllowed("A token of one team makes tokens of that team only.", code="team_bound")
        return team
    if slug is None:
        return None
    team = permissions.visible_teams(request.user).filter(slug=slug).first()
    if team is None:
        message = "There is no such team, or you are not a member of it."
        raise Invalid(message, errors=(FieldProblem(field="team", code="unknown_team", message=message),))
    return team


def _check_grants_no_more_than_it_has(request: Any, scopes: list[str]) -> None:
    missing = sorted(set(scopes) - set(permissions.scopes_of(request)))
    if missing:
        raise NotAllowed(f"This token has no scope {missing[0]} to give.", code="scope_missing")


class SettingsView(PortalView):
    serializer_class = SettingsSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="settings_read", tags=["platform"], responses=SettingsSerializer)
    def get(self, request: Any) -> Response:
        """The platform's settings."""
        check_query_parameters(request, ())
        row = PlatformSettings.current()
        return with_etag(Response(SettingsSerializer(row).data), row.version)

    @extend_schema(
        operation_id="settings_update",
        tags=["platform"],
        request=SettingsUpdateSerializer,
        responses=SettingsSerializer,
    )
    def patch(self, request: Any) -> Response:
        """Change the platform's settings; what is left out stays. Platform admins alone."""
        permissions.check_global_role(request.user, "platform-admin")
        changes = self.read(SettingsUpdateSerializer, partial=True)
        row = platform_settings.update_settings(
            actor=actor_of(request),
            changes=changes,
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return with_etag(Response(SettingsSerializer(row).data), row.version)
