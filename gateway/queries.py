"""What `live` asks the database. Every function is one short visit of a worker thread."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet, Subquery

from foundation.errors import NotFound
from gateway.credentials import find_live_endpoint_tokens
from gateway.followed import Followed
from gateway.models import EndpointToken
from teams import permissions
from teams.credentials import find_live_tokens
from teams.models import ApiToken, Team
from teams.permissions import visible_teams
from teams.tickets import Principal, standing
from workloads.models import Workload, WorkloadEvent
from workloads.states import Reason

ENDPOINT_KIND: Final = "endpoint"
MOVES_TOLD_MAX: Final = 1_000
MOVES_READ_MAX: Final = 20_000
"""Of all teams together."""
COMMIT_WITHIN: Final = timedelta(minutes=2)
"""A move has the time of the look that found it, which a reconcile takes before it asks the cluster."""
_REASONS: Final = frozenset(reason.value for reason in Reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a token opens of one team; `visible` is False for a stranger and for a team that does not exist.

    `user_id` is whose the token is, or who made it: of a token of an endpoint, which opens `endpoint` alone.
    """

    expires_at: datetime
    may_read: bool
    visible: bool
    user_id: int
    endpoint: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMove:
    """One that is stored, as its notification told it."""

    number: int
    facts: Mapping[str, str]


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
    return EndpointToken.objects.with_makers().filter(endpoint=endpoint)


def tokens_of_team(team: Team) -> QuerySet[EndpointToken]:
    """The same of all endpoints of the team, over ones too."""
    return EndpointToken.objects.with_makers().filter(endpoint__team=team)


def judged(tokens: Iterable[EndpointToken], *, now: datetime) -> list[EndpointToken]:
    """The same, each with its `end` for a page to show."""
    found = list(tokens)
    for token in found:
        token.end = token.end_at(now)
    return found


def live_endpoints(*, among: Collection[UUID]) -> set[UUID]:
    """Those of the public ids whose workloads are not over."""
    rows = Workload.objects.filter(public_id__in=among).exclude(phase__in=Workload.FINAL_PHASES)
    return set(rows.values_list("public_id", flat=True))


def visible_slugs(*, principals: Collection[Principal], now: datetime) -> dict[Principal, frozenset[str]]:
    """The slugs of the teams that each principal may see now; without those who may see nothing any more."""
    return {
        principal: frozenset(visible_teams(user).values_list("slug", flat=True))
        for principal, user in standing(principals, now=now).items()
    }


def teams_followed(*, followed: Followed, slugs: Collection[str]) -> frozenset[str]:
    """The teams of all that is followed, none where nothing is named.

    Raises NotFound where something is followed of a team that is not among `slugs`, or that there is not.
    """
    if not followed.teams <= set(slugs):
        raise NotFound("There is no such team, or it is not yours.")
    rows = Workload.objects.filter(public_id__in=followed.workloads, team__slug__in=slugs)
    found = list(rows.values_list("team__slug", flat=True)) if followed.workloads else []
    if len(found) != len(followed.workloads):
        raise NotFound("There is no such workload, or it is not yours.")
    return followed.teams | frozenset(found)


def newest_event() -> int:
    """The number of the last move that is stored, 0 before the first."""
    return WorkloadEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def moves_after(number: int, *, followed: Followed, slugs: Collection[str]) -> list[StoredMove] | None:
    """The moves that a stream which saw this one may have missed, oldest first; None where they are too many to tell.

    Numbers are given before a transaction ends: what has a lower one may have become visible later, so what was
    recorded shortly before is told again.
    """
    newest = newest_event()
    if not newest - MOVES_READ_MAX <= number <= newest:
        return None
    seen_at = WorkloadEvent.objects.filter(pk__lte=number).order_by("-pk").values("at")[:1]
    later = Q(pk__gt=number) | Q(at__gte=Subquery(seen_at) - COMMIT_WITHIN)
    rows = WorkloadEvent.objects.filter(later, pk__gt=number - MOVES_READ_MAX, workload__team__slug__in=slugs)
    if followed.teams:
        rows = rows.filter(workload__team__slug__in=followed.teams)
    if followed.workloads:
        rows = rows.filter(workload__public_id__in=followed.workloads)
    moves = list(rows.select_related("workload__team").order_by("pk")[: MOVES_TOLD_MAX + 1])
    return [_move(row) for row in moves] if len(moves) <= MOVES_TOLD_MAX else None


def _move(row: WorkloadEvent) -> StoredMove:
    workload = row.workload
    # A step of a rollout is in the history too, and is no reason of a phase.
    reason = row.reason if row.reason in _REASONS else workload.reason
    facts = {"kind": workload.kind, "team": workload.team.slug, "phase": row.to_phase, "reason": reason}
    return StoredMove(number=row.pk, facts={"workload": str(workload.public_id), **facts})


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
        user_id=token.created_by_id,
        endpoint=token.endpoint.public_id,
    )
