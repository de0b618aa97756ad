"""Who may see and do what. Every queryset of the portal starts from `visible_teams(user)`.

A stranger gets the answer that nothing is there (404), a viewer that they may not change it (403). A token of
one team sees that team alone and carries none of its user's global roles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from django.db.models import OuterRef, Q, QuerySet, Subquery

from foundation.errors import FieldProblem, NotAllowed, NotFound, NotSignedIn
from teams.errors import TeamClosed
from teams.models import ApiToken, AuditEvent, Membership, Team, User

GlobalRole = Literal["quota-manager", "platform-admin"]
NOTIFY_CHANNEL = "portal_access"
"""The channel on which triggers report changed rights of a user: `user:<id>`, or nothing if it may be any user."""
ALL_SCOPES: tuple[str, ...] = tuple(ApiToken.Scope.values)


def global_roles(user: Any) -> list[GlobalRole]:
    """The global roles that a user acts with, here and now."""
    if not isinstance(user, User) or not user.is_active or user.bound_team_id is not None:
        return []
    roles: list[GlobalRole] = []
    if user.is_platform_admin:
        roles.append("platform-admin")
    if user.is_quota_manager:
        roles.append("quota-manager")
    return roles


def has_global_role(user: Any, role: GlobalRole | None = None) -> bool:
    """Whether the user has `role`, or any global role when None. A platform admin may do what a quota manager may."""
    roles = global_roles(user)
    return bool(roles) if role is None else role in roles or "platform-admin" in roles


def visible_teams(user: Any) -> QuerySet[Team]:
    """The teams that a user may know of: their own, or all with a global role. None for an anonymous user."""
    if not isinstance(user, User) or not user.is_active:
        return Team.objects.none()
    if has_global_role(user):
        return Team.objects.all()
    mine = Q(pk__in=Membership.objects.filter(user=user).values("team"))
    if user.bound_team_id is not None:
        mine &= Q(pk=user.bound_team_id)
    return Team.objects.filter(mine)


def of_visible_teams(user: Any) -> Q:
    """Rows whose `team` the user may know of; no condition if that is all of them."""
    if isinstance(user, User) and user.is_active and has_global_role(user):
        return Q()
    return Q(team__in=visible_teams(user).values("pk"))


def of_submit_teams(user: Any) -> Q:
    """Rows whose `team` the user may submit for, as `check_can_submit` says of one; no condition if that is all of them."""
    if not isinstance(user, User) or not user.is_active:
        return Q(pk__in=[])
    if has_global_role(user, "platform-admin"):
        return Q()
    roles = (Membership.Role.MEMBER, Membership.Role.LEAD)
    mine = Membership.objects.filter(user=user, role__in=roles)
    return Q(
        team__in=(mine if user.bound_team_id is None else mine.filter(team=user.bound_team_id)).values("team")
    )


def searched_teams(user: Any, *, slugs: Collection[str] = ()) -> list[int] | None:
    """Keys of the teams that the user may know of, limited to `slugs` if there are any; None if that is all teams."""
    if not slugs and has_global_role(user):
        return None
    seen = visible_teams(user)
    teams = seen.filter(slug__in=slugs) if slugs else seen
    return list(teams.order_by().values_list("pk", flat=True))


def visible_slugs(users: Sequence[User], slugs: Collection[str]) -> list[frozenset[str]]:
    """For each user the teams of `slugs` that are in `visible_teams`; for many users at once, in two queries."""
    keys = dict(Team.objects.filter(slug__in=slugs).values_list("slug", "pk"))
    ids = {user.pk for user in users}
    memberships = set(
        Membership.objects.filter(user__in=ids, team__in=keys.values()).values_list("user_id", "team_id")
    )

    def sees(user: User, team_id: int) -> bool:
        mine = (user.pk, team_id) in memberships and user.bound_team_id in (None, team_id)
        return user.is_active and (mine or has_global_role(user))

    return [frozenset(slug for slug, key in keys.items() if sees(user, key)) for user in users]


def visible_audit_events(user: Any) -> QuerySet[AuditEvent]:
    """What a user may read of the audit trail: their teams' events and, without a team-bound token, their own."""
    if not isinstance(user, User) or not user.is_active:
        return AuditEvent.objects.none()
    if has_global_role(user):
        return AuditEvent.objects.all()
    mine = Q(team__in=visible_teams(user).values("pk"))
    if user.bound_team_id is None:
        mine |= Q(actor=user)
    return AuditEvent.objects.filter(mine)


def sees_origin(user: Any, event: AuditEvent) -> bool:
    """Whether a reader of the event may know its address and token: of their own, and of all as a platform admin."""
    return bool(event.actor_id == user.pk or has_global_role(user, "platform-admin"))


def role_in(user: Any, team: Team) -> str | None:
    """The role that a user acts with in a team, as a Membership.Role; None for a stranger.

    A platform admin acts as a lead everywhere, a quota manager at least as a viewer.
    """
    asks = isinstance(user, User) and not has_global_role(user, "platform-admin")
    mine = Membership.objects.filter(user=user, team=team) if asks else Membership.objects.none()
    return role_with(mine.values_list("role", flat=True).first(), user, team)


def role_with(mine: str | None, user: Any, team: Team) -> str | None:
    """The same for a caller that already has the role of the user's membership; None if there is no membership."""
    if not isinstance(user, User) or not user.is_active or user.bound_team_id not in (None, team.pk):
        return None
    if has_global_role(user, "platform-admin"):
        return Membership.Role.LEAD
    return mine or (Membership.Role.VIEWER if has_global_role(user, "quota-manager") else None)


def membership_role(user: Any, team: str) -> Subquery:
    """The role of the user's membership in the team that a row has as `team`, to be read with the row."""
    mine = Membership.objects.filter(team=OuterRef(team), user_id=user.pk or 0)
    return Subquery(mine.values("role")[:1])


def role_of_member(user: str, team: str) -> Subquery:
    """The role of the membership of who a row has as `user` in the team that it has as `team`."""
    of_row = Membership.objects.filter(team=OuterRef(team), user=OuterRef(user))
    return Subquery(of_row.values("role")[:1])


def team_for(user: Any, slug: str, *, field: str = "") -> Team:
    """The team of that slug, if the user may know of it. Raises NotFound, naming the body's `field` if it has one."""
    team = visible_teams(user).filter(slug=slug).first()
    if team is None:
        message = "There is no such team, or you are not a member of it."
        raise NotFound.of_field(field, message) if field else NotFound(message)
    return team


def check_can_submit(user: Any, team: Team) -> None:
    """May this user create and steer workloads of the team? Raises NotFound for a stranger, NotAllowed for a viewer."""
    if _role_or_not_found(user, team) == Membership.Role.VIEWER:
        raise NotAllowed(f"A viewer of team {team.slug} cannot change its workloads.", code="viewer_only")


def check_open(team: Team) -> None:
    """Raises TeamClosed for a team that is closed or being closed: it takes nothing new."""
    if team.closed_at is not None:
        raise TeamClosed(f"Team {team.slug} is closed since {team.closed_at:%Y-%m-%d %H:%M} UTC.")
    if team.closing_since is not None:
        raise TeamClosed(
            f"Team {team.slug} is being closed since {team.closing_since:%Y-%m-%d %H:%M} UTC; it takes nothing new."
        )


def hold_open(team: Team) -> Team:
    """Hold the team's row until the transaction ends, so that nobody closes it meanwhile; its row as it is now.

    Raises TeamClosed as `check_open` does, NotFound for a team that is gone.
    """
    held = Team.objects.select_for_update(no_key=True).filter(pk=team.pk).first()
    if held is None:
        raise NotFound("This team is gone.")
    check_open(held)
    return held


def check_can_manage(user: Any, team: Team) -> None:
    """May this user change the team and its members? Raises NotFound for a stranger, NotAllowed for others."""
    if _role_or_not_found(user, team) != Membership.Role.LEAD:
        raise NotAllowed(
            f"Only a lead of team {team.slug} or a platform admin may do this.", code="lead_only"
        )


def check_global_role(user: Any, role: GlobalRole | None = None) -> None:
    """Raises NotAllowed without the role, or without any global role when None."""
    if not has_global_role(user, role):
        who = f"a {role.replace('-', ' ')}" if role else "quota managers and platform admins"
        raise NotAllowed(f"Only {who} may do this.", code="role_missing")


def scopes_of(request: Any) -> tuple[str, ...]:
    """The scopes of a request: those of its token; a session has all, an anonymous request none."""
    if not isinstance(request.user, User):
        return ()
    token = getattr(request, "auth", None)
    return tuple(token.scopes) if isinstance(token, ApiToken) else ALL_SCOPES


def check_scope(request: Any, scope: str) -> None:
    """Raises NotSignedIn for an anonymous request, NotAllowed (`scope_missing`) when the token lacks the scope."""
    if not isinstance(request.user, User) or not request.user.is_active:
        raise NotSignedIn("Sign in, or send a bearer token.")
    if scope not in scopes_of(request):
        message = f"This token lacks the scope {scope}."
        raise NotAllowed(
            message,
            code="scope_missing",
            errors=(FieldProblem(field="scopes", code="scope_missing", message=message),),
        )


def _role_or_not_found(user: Any, team: Team) -> str:
    role = role_in(user, team)
    if role is None:
        raise NotFound("There is no such team, or you are not a member of it.")
    return role
