"""What `live` asks the database. Every function is one short visit of a worker thread."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from teams.credentials import find_live_token
from teams.models import ApiToken, User
from teams.permissions import visible_teams


@dataclass(frozen=True, slots=True)
class Access:
    """What a token opens of one team; `visible` is False for a stranger and for a team that does not exist."""

    expires_at: datetime
    may_read: bool
    visible: bool


@dataclass(frozen=True, slots=True)
class Principal:
    """For whom a stream is open: a user, with no more than one token's rights where a token asked for it."""

    user_id: int
    token_id: int | None = None


def access_of_token(*, plain: str, team_slug: str, now: datetime) -> Access | None:
    """What the bearer token opens of the team; None if it is unknown, expired or revoked."""
    token = find_live_token(plain, now=now)
    if token is None:
        return None
    user = token.user
    user.bound_team_id = token.team_id
    return Access(
        expires_at=token.expires_at,
        may_read=ApiToken.Scope.READ in token.scopes,
        visible=visible_teams(user).filter(slug=team_slug).exists(),
    )


def visible_slugs(*, principals: Collection[Principal], now: datetime) -> dict[Principal, frozenset[str]]:
    """The slugs of the teams that each may see now; without those who may see nothing any more."""
    users = User.objects.in_bulk({each.user_id for each in principals})
    wanted = {each.token_id for each in principals if each.token_id is not None}
    tokens = ApiToken.objects.in_bulk(wanted)
    answer: dict[Principal, frozenset[str]] = {}
    for principal in principals:
        user = users.get(principal.user_id)
        if user is None or not user.is_active:
            continue
        user.bound_team_id = None
        if principal.token_id is not None:
            token = tokens.get(principal.token_id)
            if token is None or not _opens(token, user=user, now=now):
                continue
            user.bound_team_id = token.team_id
        answer[principal] = frozenset(visible_teams(user).values_list("slug", flat=True))
    return answer


def _opens(token: ApiToken, *, user: User, now: datetime) -> bool:
    return token.user_id == user.pk and token.is_live(now) and ApiToken.Scope.READ in token.scopes
