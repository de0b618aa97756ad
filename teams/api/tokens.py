"""REST: `tokens/`."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.errors import FieldProblem, Invalid, NotAllowed, NotFound, NotSignedIn
from foundation.http import filters
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from foundation.models import PlatformSettings
from teams import permissions, queries, services, sign_ins
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.api.serializers import (
    TokenCreateSerializer,
    TokenExchangeSerializer,
    TokenSerializer,
    TokenWithSecretSerializer,
)
from teams.models import ApiToken, Team

NO_CONTENT = OpenApiResponse(description="Done.")


class _MakesTokens(PortalView):
    def make(self, values: dict[str, Any]) -> Response:
        """201 with a token of the request's user and its value, which exists nowhere else from then on."""
        request: Any = self.request
        token, secret = services.create_token(
            actor=actor_of(request), user=request.user, name=values["name"], scopes=values["scopes"],
            expires_in_days=values["expires_in_days"], team=_token_team(request, values.get("team")), now=clock.now(),
            made_with=request.auth if isinstance(request.auth, ApiToken) else None,
        )  # fmt: skip
        token.secret = secret  # type: ignore[attr-defined]
        path = reverse("teams-api:token", kwargs={"token_id": token.public_id})
        return self.created(TokenWithSecretSerializer(token).data, path, holds_secret=True)


class TokenListView(_MakesTokens):
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
        return self.make(values)


class TokenExchangeView(_MakesTokens):
    """A first token without a browser. Guesses are slowed down as those of the sign-in page are: 429 with Retry-After."""

    queryset = ApiToken.objects.none()
    serializer_class = TokenWithSecretSerializer
    authentication_classes = []
    permission_classes = []

    @extend_schema(
        operation_id="tokens_exchange", tags=["people"], auth=[],
        request=TokenExchangeSerializer, responses={201: TokenWithSecretSerializer},
    )  # fmt: skip
    def post(self, request: Any) -> Response:
        """Make an API token for a user's name and password; its value is in this answer alone. 403 `exchange_off` where
        the platform's setting `password_exchange` says no, 401 for a wrong name or password.
        """
        if not PlatformSettings.current().password_exchange:
            raise NotAllowed("This portal gives no tokens for passwords.", code="exchange_off")
        values = self.read(TokenExchangeSerializer)
        user = sign_ins.with_password(
            request, username=values["username"], password=values["password"], way=sign_ins.Way.EXCHANGE
        )
        if user is None:
            raise NotSignedIn("The name or the password is wrong.", code="wrong_password")
        request.user = user
        return self.make(values)


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
