"""Bearer tokens. A run's own token (`mlr_…`) is not handled here: the views it opens authenticate it themselves."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from typing_extensions import override

from foundation import clock
from teams import tokens
from teams.credentials import find_live_token
from teams.models import ApiToken, User

SCHEME = "bearer"
AUTHORIZATION_LENGTH_MAX = 1000


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer mlp_…` gives (user, ApiToken). One query; `last_used_at` at most once a minute."""

    @override
    def authenticate(self, request: Any) -> tuple[User, ApiToken] | None:
        plain = bearer_of(request)
        if plain is None or plain.startswith(tokens.RUN_TOKEN_PREFIX):
            return None
        token = find_live_token(plain, now=clock.now())
        if token is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.", code="invalid_token")
        user = token.user
        user.bound_team_id = token.team_id
        return user, token

    @override
    def authenticate_header(self, request: Any) -> str:
        del request
        return "Bearer"


def bearer_of(request: Any) -> str | None:
    """The bearer credential of a request; None when there is none. Works for Django and DRF requests alike."""
    header = str(request.META.get("HTTP_AUTHORIZATION", ""))
    scheme, _, credential = header.partition(" ")
    if scheme.lower() != SCHEME or len(header) > AUTHORIZATION_LENGTH_MAX:
        return None
    return credential.strip()
