"""Changes to users, teams and memberships. Each is one transaction and leaves an audit event.

Nothing here checks the actor's rights: entry points do, with teams.permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ProtectedError, Q, RestrictedError
from django.db.utils import IntegrityError

from foundation.errors import Conflict, FieldProblem, Invalid, NotFound
from foundation.http.etag import Versions, check_version
from foundation.pod_security import PodSecurity
from teams.actors import Actor
from teams.audit import record_audit
from teams.credentials import create_sign_in_link, create_token, redeem_sign_in_link, revoke_token
from teams.errors import AlreadyMember, TeamClosed, TeamInUse
from teams.models import ApiToken, Membership, Team, User
from teams.signals import cohort_changed, team_closed, team_closing, team_deleting
from teams.workload_policy import is_reserved_namespace

__all__ = [
    "add_member",
    "begin_closing",
    "change_role",
    "create_sign_in_link",
    "create_team",
    "create_token",
    "create_user",
    "delete_team",
    "end_closing",
    "record_audit",
    "redeem_sign_in_link",
    "remove_member",
    "reopen_team",
    "revoke_token",
    "set_active",
    "set_global_roles",
    "set_password",
    "update_team",
]

REASON_LENGTH_MAX = 1000
WORKLOAD_POLICY = ("may_run_as_root", "egress", "image_prefixes", "allowed_labels")
"""What a platform admin lets the team's pods do."""
TEAM_CHANGEABLE = ("name", "cohort_name", "pod_security", "mlflow_tracking_uri", *WORKLOAD_POLICY)


@transaction.atomic
def create_team(
    *,
    actor: Actor,
    slug: str,
    name: str,
    now: datetime,
    cohort_name: str = "",
    namespace: str | None = None,
    pod_security: str = PodSecurity.AUTOMATIC,
    mlflow_tracking_uri: str = "",
    **workload_policy: Any,
) -> Team:
    """A new team; `workload_policy` are some of WORKLOAD_POLICY.

    Raises Conflict when the slug or namespace is taken, Invalid for malformed values.
    """
    team = Team(
        slug=slug,
        name=name,
        cohort_name=cohort_name,
        namespace=namespace or None,
        pod_security=pod_security,
        mlflow_tracking_uri=mlflow_tracking_uri,
        created_at=now,
        **workload_policy,
    )
    _check(team)
    _check_namespace(team)
    _check_names_are_free(team)
    try:
        with transaction.atomic():
            team.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(f"There is a team {slug} already.", code="slug_taken") from error
    record_audit(
        actor=actor,
        action="team.create",
        target_kind="team",
        target_id=team.public_id,
        team=team,
        after=team_values(team),
        now=now,
    )
    if cohort_name:
        cohort_changed.send(sender=Team, team=team, left="", now=now)
    return team


@transaction.atomic
def update_team(
    *,
    actor: Actor,
    team: Team,
    changes: Mapping[str, Any],
    now: datetime,
    expected_versions: Versions | None = None,
) -> Team:
    """The team with `changes` to some of TEAM_CHANGEABLE; unchanged values write nothing.

    Raises PreconditionFailed unless its version is expected, Invalid for malformed values.
    """
    locked = _locked_team(team)
    check_version(expected=expected_versions, current=locked.version)
    before = team_values(locked)
    changed = [name for name in TEAM_CHANGEABLE if name in changes and changes[name] != getattr(locked, name)]
    if not changed:
        return locked
    for name in changed:
        setattr(locked, name, changes[name])
    _check(locked)
    locked.version += 1
    locked.save(update_fields=[*changed, "version"])
    after = team_values(locked)
    record_audit(
        actor=actor,
        action="team.update",
        target_kind="team",
        target_id=locked.public_id,
        team=locked,
        before={name: before[name] for name in changed},
        after={name: after[name] for name in changed},
        now=now,
    )
    if "cohort_name" in changed:
        cohort_changed.send(sender=Team, team=locked, left=before["cohort_name"], now=now)
    return locked


@transaction.atomic
def delete_team(
    *, actor: Actor, team: Team, now: datetime, expected_versions: Versions | None = None
) -> None:
    """Delete a team that has no history; one that has is closed (`console.closing`).

    Raises TeamInUse while anything (a workload, a quota, money, a Secret or volume in the cluster) refers to it.
    """
    locked = _locked_team(team, stays=False)
    check_version(expected=expected_versions, current=locked.version)
    public_id, values = locked.public_id, team_values(locked)
    record_audit(
        actor=actor,
        action="team.delete",
        target_kind="team",
        target_id=public_id,
        team=locked,
        before=values,
        now=now,
    )
    if locked.secret_names.filter(written_here=True).exists():
        raise TeamInUse(
            f"Team {team.slug} has secrets in the cluster, which nobody would know of: delete them first."
        )
    team_deleting.send(sender=Team, team=locked)
    try:
        locked.delete()
    except (ProtectedError, RestrictedError) as error:
        message = f"Team {team.slug} has workloads or other records; it cannot be deleted. Close it: its records stay."
        raise TeamInUse(message) from error


@transaction.atomic
def begin_closing(
    *, actor: Actor, team: Team, reason: str, now: datetime, expected_versions: Versions | None = None
) -> Team:
    """The team, which takes nothing new from now on; its own tokens open nothing any more.

    Raises TeamClosed where it is closed or being closed, Invalid without a reason, PreconditionFailed unless its version is
    expected.
    """
    told = _reason(reason)
    locked = _locked_team(team)
    check_version(expected=expected_versions, current=locked.version)
    if locked.closing_since is not None:
        state = "closed" if locked.closed_at else "being closed"
        raise TeamClosed(f"Team {locked.slug} is {state} already.")
    locked.closing_since, locked.closed_at = now, None
    locked.closed_by, locked.closing_reason = actor.user, told
    _save_state(locked)
    _record_state(
        "team.close", locked, {"state": "open"}, {"state": "closing"}, actor=actor, now=now, reason=told
    )
    for token in ApiToken.objects.filter(team=locked, revoked_at__isnull=True).order_by("pk"):
        revoke_token(actor=actor, token=token, now=now)
    team_closing.send(sender=Team, team=locked, actor=actor, now=now)
    return locked


def end_closing(*, team: Team, actor: Actor, now: datetime) -> None:
    """Write down that the last of the team has ended. The caller holds its row and has looked."""
    team.closed_at = now
    _save_state(team)
    _record_state("team.closed", team, {"state": "closing"}, {"state": "closed"}, actor=actor, now=now)
    team_closed.send(sender=Team, team=team, now=now)


@transaction.atomic
def reopen_team(
    *, actor: Actor, team: Team, reason: str, now: datetime, expected_versions: Versions | None = None
) -> Team:
    """The team, which takes work again. What was ended stays ended: tokens, subscriptions and quota are given anew.

    Raises Conflict for a team that is open, Invalid without a reason, PreconditionFailed unless its version is expected.
    """
    told = _reason(reason)
    locked = _locked_team(team)
    check_version(expected=expected_versions, current=locked.version)
    if locked.closing_since is None:
        raise Conflict(f"Team {locked.slug} is not closed.", code="team_open")
    before = {"state": locked.state.value, "reason": locked.closing_reason}
    locked.closing_since = locked.closed_at = locked.closed_by = None
    locked.closing_reason = ""
    _save_state(locked)
    _record_state("team.reopen", locked, before, {"state": "open"}, actor=actor, now=now, reason=told)
    return locked


@transaction.atomic
def add_member(*, actor: Actor, team: Team, user: User, role: str, now: datetime) -> Membership:
    """A new membership. Raises AlreadyMember, Invalid for an unknown role or an inactive user."""
    _check_role(role)
    if not user.is_active:
        raise Invalid.of_field("username", f"{user.username} is not active.", code="inactive_user")
    membership, created = Membership.objects.get_or_create(
        team=team, user=user, defaults={"role": role, "created_at": now}
    )
    if not created:
        raise AlreadyMember(f"{user.username} is a {membership.role} of team {team.slug} already.")
    _record_membership(actor, "membership.create", membership, None, role, now)
    return membership


@transaction.atomic
def change_role(*, actor: Actor, membership: Membership, role: str, now: datetime) -> Membership:
    """The membership with another role. Raises Invalid for an unknown one, NotFound when it is gone."""
    _check_role(role)
    locked = _locked_membership(membership)
    before = locked.role
    if before == role:
        return locked
    locked.role = role
    locked.save(update_fields=["role"])
    _record_membership(actor, "membership.change-role", locked, before, role, now)
    return locked


@transaction.atomic
def remove_member(*, actor: Actor, membership: Membership, now: datetime) -> None:
    """The user leaves the team at once, with every token and session. Raises NotFound when it is gone."""
    locked = _locked_membership(membership)
    _record_membership(actor, "membership.delete", locked, locked.role, None, now)
    locked.delete()


@transaction.atomic
def create_user(
    *,
    actor: Actor,
    username: str,
    now: datetime,
    password: str | None = None,
    email: str = "",
    quota_manager: bool = False,
    platform_admin: bool = False,
) -> User:
    """A new user; without a password only links and tokens let them in. Raises Invalid, Conflict when taken."""
    user = User(username=username, email=email)
    _apply_roles(user, quota_manager=quota_manager, platform_admin=platform_admin)
    user.set_password(password)
    _check(user)
    if User.objects.filter(username__iexact=username).exists():
        raise Conflict(f"There is a user {username} already.", code="username_taken")
    user.save(force_insert=True)
    record_audit(
        actor=actor,
        action="user.create",
        target_kind="user",
        target_id=user.public_id,
        after=user_values(user),
        now=now,
    )
    return user


@transaction.atomic
def set_global_roles(
    *, actor: Actor, user: User, quota_manager: bool, platform_admin: bool, now: datetime
) -> User:
    """The user with exactly these global roles; both roles open the admin console."""
    locked = User.objects.select_for_update().get(pk=user.pk)
    before = user_values(locked)
    _apply_roles(locked, quota_manager=quota_manager, platform_admin=platform_admin)
    after = user_values(locked)
    locked.save(update_fields=["is_quota_manager", "is_platform_admin", "is_staff"])
    if before != after:
        _record_user(actor, "user.set-roles", locked, before, after, now)
    return locked


@transaction.atomic
def set_active(*, actor: Actor, user: User, active: bool, now: datetime) -> User:
    """Let a user in, or shut every door at once: sessions, tokens and links of an inactive user open nothing."""
    locked = User.objects.select_for_update().get(pk=user.pk)
    if locked.is_active == active:
        return locked
    before = user_values(locked)
    locked.is_active = active
    locked.save(update_fields=["is_active"])
    _record_user(
        actor, "user.activate" if active else "user.deactivate", locked, before, user_values(locked), now
    )
    return locked


@transaction.atomic
def set_password(*, actor: Actor, user: User, password: str, now: datetime, validate: bool = True) -> User:
    """Replace the password, which ends the user's other sessions. Raises Invalid for a weak one."""
    locked = User.objects.select_for_update().get(pk=user.pk)
    if validate:
        try:
            validate_password(password, locked)
        except ValidationError as error:
            raise Invalid.of_field("password", " ".join(error.messages), code="weak_password") from error
    locked.set_password(password)
    locked.save(update_fields=["password"])
    record_audit(
        actor=actor,
        action="user.set-password",
        target_kind="user",
        target_id=locked.public_id,
        target_name=locked.username,
        now=now,
    )
    return locked


def team_values(team: Team) -> dict[str, Any]:
    """The values of a team in the audit trail."""
    return {
        "slug": team.slug,
        "name": team.name,
        "cohort_name": team.cohort_name,
        "namespace": team.namespace_name,
        "pod_security": str(team.pod_security),
        "mlflow_tracking_uri": team.mlflow_tracking_uri,
        **{name: getattr(team, name) for name in WORKLOAD_POLICY},
    }


def user_values(user: User) -> dict[str, Any]:
    """The values of a user in the audit trail."""
    return {
        "username": user.username,
        "email": user.email,
        "is_active": user.is_active,
        "is_quota_manager": user.is_quota_manager,
        "is_platform_admin": user.is_platform_admin,
    }


def _reason(reason: str) -> str:
    told = reason.strip()
    if not told:
        raise Invalid.of_field("reason", "Say why; it is kept with the team.", code="required")
    if len(told) > REASON_LENGTH_MAX:
        raise Invalid.of_field("reason", f"At most {REASON_LENGTH_MAX} characters.", code="max_length")
    return told


def _save_state(team: Team) -> None:
    team.version += 1
    team.save(update_fields=["closing_since", "closed_at", "closed_by", "closing_reason", "version"])


def _record_state(
    action: str,
    team: Team,
    before: dict[str, Any],
    after: dict[str, Any],
    *,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> None:
    record_audit(
        actor=actor, action=action, target_kind="team", target_id=team.public_id, target_name=team.slug,
        team=team, before=before, after=after, reason=reason, now=now,
    )  # fmt: skip


def _apply_roles(user: User, *, quota_manager: bool, platform_admin: bool) -> None:
    user.is_quota_manager = quota_manager
    user.is_platform_admin = platform_admin
    user.is_staff = quota_manager or platform_admin


def _locked_team(team: Team, *, stays: bool = True) -> Team:
    # While the team is not deleted, rows that name it may still be written, also by a transaction that this change awaits.
    locked = Team.objects.select_for_update(no_key=stays).filter(pk=team.pk).first()
    if locked is None:
        raise NotFound("This team is gone.")
    return locked


def _locked_membership(membership: Membership) -> Membership:
    locked = (
        Membership.objects.select_for_update(of=("self",))
        .select_related("team", "user")
        .filter(pk=membership.pk)
        .first()
    )
    if locked is None:
        raise NotFound("This membership is gone.")
    return locked


def _check_namespace(team: Team) -> None:
    if is_reserved_namespace(team.namespace_name, own=settings.OWN_NAMESPACES):
        message = (
            f"The namespace {team.namespace_name} belongs to Kubernetes or to the portal: name another one."
        )
        raise Invalid.of_field("namespace", message, code="reserved_name")


def _check_names_are_free(team: Team) -> None:
    """Two teams never share a slug or a namespace, whether the namespace is named or derived."""
    if Team.objects.filter(slug=team.slug).exists():
        raise Conflict(f"There is a team {team.slug} already.", code="slug_taken")
    wanted = team.namespace_name
    taken = Q(namespace=wanted)
    if wanted.startswith("team-"):
        taken |= Q(slug=wanted.removeprefix("team-"), namespace__isnull=True)
    if Team.objects.filter(taken).exists():
        raise Conflict(f"Another team uses the namespace {wanted}.", code="namespace_taken")


def _check_role(role: str) -> None:
    if role not in Membership.Role.values:
        message = f"A role is one of {', '.join(Membership.Role.values)}."
        raise Invalid.of_field("role", message, code="invalid_choice")


def _check(row: Team | User) -> None:
    try:
        row.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as refused:
        problems = [
            FieldProblem(field=name, code=error.code or "invalid", message=" ".join(error.messages))
            for name, errors in refused.error_dict.items()
            for error in errors
        ]
        raise Invalid(problems[0].message, errors=problems) from refused


def _record_membership(
    actor: Actor, action: str, membership: Membership, before: str | None, after: str | None, now: datetime
) -> None:
    username = membership.user.username
    record_audit(
        actor=actor,
        action=action,
        target_kind="user",
        target_id=membership.user.public_id,
        team=membership.team,
        before=None if before is None else {"username": username, "role": str(before)},
        after=None if after is None else {"username": username, "role": str(after)},
        now=now,
    )


def _record_user(
    actor: Actor, action: str, user: User, before: dict[str, Any], after: dict[str, Any], now: datetime
) -> None:
    changed = [name for name in after if before[name] != after[name]]
    record_audit(
        actor=actor,
        action=action,
        target_kind="user",
        target_id=user.public_id,
        target_name=user.username,
        before={name: before[name] for name in changed},
        after={name: after[name] for name in changed},
        now=now,
    )
