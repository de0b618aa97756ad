"""What pages and the API ask about people; nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import F, Q, QuerySet

from foundation.errors import Invalid, NotFound
from teams.models import OWN_NAMESPACE, ApiToken, Membership, SecretName, Team, TeamState, User
from teams.permissions import global_roles, scopes_of, visible_teams

_IN_STATE = {
    TeamState.OPEN.value: Q(closing_since__isnull=True),
    TeamState.CLOSING.value: Q(closing_since__isnull=False, closed_at__isnull=True),
    TeamState.CLOSED.value: Q(closed_at__isnull=False),
}


def in_states(states: Iterable[str]) -> Q:
    """Teams that are in one of these states, as `Team.state` says it."""
    return reduce(or_, (_IN_STATE[state] for state in states), Q(pk__in=[]))


def memberships_of(user: User) -> QuerySet[Membership]:
    """A user's memberships in the teams that this request may see, by slug."""
    return (
        Membership.objects.filter(user=user, team__in=visible_teams(user).values("pk"))
        .select_related("team")
        .order_by("team__slug")
    )


def members_of(team: Team) -> QuerySet[Membership]:
    """The members of a team, with their users."""
    return Membership.objects.filter(team=team).select_related("user").annotate(username=F("user__username"))


def member_named(team: Team, username: str) -> Membership:
    """The membership of that user. Raises NotFound."""
    member = members_of(team).filter(user__username=username).first()
    if member is None:
        raise NotFound(f"{username} is no member of team {team.slug}.")
    return member


def user_named(username: str) -> User:
    """The user of that name, as typed by a user who adds a member. Raises Invalid for its field."""
    user = User.objects.filter(username=username).first()
    if user is None:
        raise Invalid.of_field("username", f"There is no user {username}.", code="unknown_user")
    return user


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """A user's own tokens; through a token of one team only those of that team."""
    mine = ApiToken.objects.filter(user=user).select_related("team")
    return mine if user.bound_team_id is None else mine.filter(team_id=user.bound_team_id)


def secrets_of(team: Team) -> QuerySet[SecretName]:
    """The Secrets that the team's runs and endpoints may name, by name."""
    return SecretName.objects.filter(team=team).select_related("updated_by")


def caller(request: Any) -> dict[str, Any]:
    """Who is asking, and what they may do at most."""
    user: User = request.user
    token = getattr(request, "auth", None)
    return {
        "id": user.public_id,
        "username": user.username,
        "name": user.get_full_name(),
        "email": user.email,
        "roles": global_roles(user),
        "scopes": list(scopes_of(request)),
        "token": token if isinstance(token, ApiToken) else None,
        "memberships": list(memberships_of(user)),
    }


def namespaces_of_teams(names: Collection[str]) -> frozenset[str]:
    """Those of the namespaces that are a team's."""
    slugs = [name.removeprefix(OWN_NAMESPACE) for name in names if name.startswith(OWN_NAMESPACE)]
    found = Team.objects.filter(Q(namespace__in=list(names)) | Q(slug__in=slugs, namespace=None))
    return frozenset(team.namespace_name for team in found.only("slug", "namespace"))
