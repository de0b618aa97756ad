"""REST: `teams/{slug}/close/` and `reopen/`: what closing a team ends, doing it, and taking it back."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from console.closing import ClosingSeen, close_team, closing_seen, reopen_team
from foundation import clock
from foundation.http.etag import expected_versions, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from foundation.http.serializers import StrictSerializer
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken, Team, TeamState
from teams.permissions import check_can_manage, check_global_role, team_for
from teams.services import REASON_LENGTH_MAX


class EndingSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(source="kind.name")
    waiting = serializers.IntegerField(source="waits", help_text="Queued or suspended: they end at once.")
    live = serializers.IntegerField(help_text="They hold claims, and end with their grace period.")


class QuotaGivenBackSerializer(serializers.Serializer[Any]):
    flavor = serializers.CharField(source="quota.flavor.name")
    capacity = serializers.CharField(source="quota.capacity_type")
    nominal = serializers.IntegerField(source="quota.nominal", help_text="It becomes 0.")
    lent = serializers.IntegerField(
        help_text="Units that others of the cohort use of it: they keep them until they end."
    )


class ClosingSerializer(serializers.Serializer[ClosingSeen]):
    """What closing the team ends or still has to end, and what is kept."""

    team = serializers.CharField(source="team.slug")
    state = serializers.ChoiceField(source="team.state", choices=TeamState.choices)
    closing_since = serializers.DateTimeField(source="team.closing_since", allow_null=True)
    closed_at = serializers.DateTimeField(source="team.closed_at", allow_null=True)
    closed_by = serializers.CharField(source="team.closed_by.username", default=None, allow_null=True)
    reason = serializers.CharField(source="team.closing_reason", allow_blank=True)
    workloads = EndingSerializer(many=True)
    tokens = serializers.IntegerField(help_text="API tokens of this team alone; they are revoked at once.")
    others = serializers.DictField(
        child=serializers.IntegerField(), help_text="How many others end, such as subscriptions, by name."
    )
    quotas = QuotaGivenBackSerializer(many=True)
    volumes = serializers.IntegerField(help_text="Kept, with their data.")
    secrets = serializers.IntegerField(help_text="Kept, until somebody deletes them.")
    namespace = serializers.CharField(source="team.namespace_name", help_text="Kept.")


class CloseSerializer(StrictSerializer):
    reason = serializers.CharField(
        max_length=REASON_LENGTH_MAX, help_text="Why; the team reads it, and it is kept."
    )
    confirm = serializers.CharField(max_length=63, help_text="The team's slug once more: all its work ends.")


class ReopenSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=REASON_LENGTH_MAX, help_text="Why; it is kept.")


def _answer(team: Team) -> Response:
    seen = closing_seen(team=team, now=clock.now())
    return with_etag(Response(ClosingSerializer(seen).data), team.version)


class TeamCloseView(PortalView):
    """Closing a team."""

    queryset = Team.objects.none()
    serializer_class = ClosingSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"post"})

    @extend_schema(operation_id="team_closing_read", tags=["people"], responses=ClosingSerializer)
    def get(self, request: Any, slug: str) -> Response:
        """What closing a team would end, or still has to end; by its leads and platform admins."""
        check_query_parameters(request, ())
        team = team_for(request.user, slug)
        check_can_manage(request.user, team)
        return _answer(team)

    @extend_schema(
        operation_id="teams_close", tags=["people"], request=CloseSerializer, responses=ClosingSerializer
    )
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        """Close a team: it takes nothing new, and what it has is ended in order; platform admins alone."""
        team = team_for(request.user, slug)
        check_global_role(request.user, "platform-admin")
        values = self.read(CloseSerializer)
        closing = close_team(
            team=team,
            confirm=values["confirm"],
            reason=values["reason"],
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return _answer(closing)


class TeamReopenView(PortalView):
    """Opening a closed team."""

    queryset = Team.objects.none()
    serializer_class = ClosingSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"post"})

    @extend_schema(
        operation_id="teams_reopen", tags=["people"], request=ReopenSerializer, responses=ClosingSerializer
    )
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        """Let a closed team work again; platform admins alone. What was ended stays ended, and its quota is 0."""
        team = team_for(request.user, slug)
        check_global_role(request.user, "platform-admin")
        values = self.read(ReopenSerializer)
        opened = reopen_team(
            team=team,
            reason=values["reason"],
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return _answer(opened)
