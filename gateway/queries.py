"""What `live` asks the database. Every function is one short visit of a worker thread."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from foundation.errors import NotFound
from gateway.credentials import find_live_endpoint_tokens
from gateway.models import EndpointToken
from teams import permissions
from teams.credentials import find_live_tokens
from teams.models import ApiToken, User
from teams.permissions import visible_teams
from workloads.models import Workload

ENDPOINT_KIND: Final = "endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a token opens of one team; `visible` is False for a stranger and for a team that does not exist.

    `user_id` is None for a token of an endpoint, which opens `endpoint` alone.
    """

    expires_at: datetime
    may_read: bool
    visible: bool
    user_id: int | None = None
    endpoint: UUID | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """The one for whom a stream is open: a user, with no more than one token's rights where a token asked for it."""

    user_id: int
    token_id: int | None = None


def access_of_callers(
    *, keys: Collection[tuple[str, str]], now: datetime
) -> dict[tuple[str, str], Access | None]:
    """What the token opens, by (the token's digest, the team's slug); None if it is unknown, expired or revoked."""
    digests = {digest for digest, _ in keys}
    of_users = find_live_tokens(digests, now=now)
    for token in of_users:
        token.user.bound_team_id = token.team_id
    slugs = permissions.visible_slugs([token.user for token in of_users], {slug for _, slug in keys})
    by_user = {token.digest: (token, seen) for token, seen in zip(of_users, slugs, strict=True)}
    rest = digests - by_user.keys()
    of_endpoints = find_live_endpoint_tokens(rest, now=now) if rest else []
    by_endpoint = {token.digest: token for token in of_endpoints}
    answer: dict[tuple[str, str], Access | None] = {}
    for digest, slug in keys:
        if digest in by_user:
            answer[digest, slug] = _of_user(*by_user[digest], slug)
        elif digest in by_endpoint:
            answer[digest, slug] = _of_endpoint(by_endpoint[digest], slug)
        else:
            answer[digest, slug] = None
    return answer


def endpoint_for(*, user: Any, public_id: UUID) -> Workload:
    """The endpoint with its team. Raises NotFound, which is also the answer to a stranger."""
    rows = Workload.objects.select_related("team").filter(team__in=visible_teams(user).values("pk"))
    endpoint = rows.filter(public_id=public_id, kind=ENDPOINT_KIND).first()
    if endpoint is None:
        raise NotFound("There is no such endpoint.")
    return endpoint


def tokens_of(endpoint: Workload) -> QuerySet[EndpointToken]:
    """All tokens of the endpoint, revoked and expired ones too, newest first."""
    return EndpointToken.objects.filter(endpoint=endpoint).select_related("created_by")


def live_endpoints(*, among: Collection[UUID]) -> set[UUID]:
    """Those of the public ids whose workloads are not over."""
    rows = Workload.objects.filter(public_id__in=among).exclude(phase__in=Workload.FINAL_PHASES)
    return set(rows.values_list("public_id", flat=True))


def visible_slugs(*, principals: Collection[Principal], now: datetime) -> dict[Principal, frozenset[str]]:
    """The slugs of the teams that each principal may see now; without those who may see nothing any more."""
    users = User.objects.in_bulk({principal.user_id for principal in principals})
    wanted = {principal.token_id for principal in principals if principal.token_id is not None}
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


def _of_user(token: ApiToken, seen: frozenset[str], slug: str) -> Access:
    return Access(
        expires_at=token.expires_at,
        may_read=ApiToken.Scope.READ in token.scopes,
        visible=slug in seen,
        user_id=token.user_id,
    )


def _of_endpoint(token: EndpointToken, slug: str) -> Access:
    return Access(
        expires_at=token.expires_at,
        may_read=True,
        visible=token.endpoint.team.slug == slug,
        endpoint=token.endpoint.public_id,
    )


def _opens(token: ApiToken, *, user: User, now: datetime) -> bool:
    return token.user_id == user.pk and token.is_live(now) and ApiToken.Scope.READ in token.scopes
