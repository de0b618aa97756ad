from __future__ import annotations

from datetime import timedelta
from importlib import import_module

import pytest
from django.db import IntegrityError, connection, transaction

from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound
from teams import permissions, services
from teams.models import ApiToken, AuditEvent, Membership, SignInLink, Team, User
from tests.factories.teams import ACTOR, make_member, make_team, make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "statement", ["UPDATE teams_auditevent SET reason = 'x'", "DELETE FROM teams_auditevent"]
)
def test_the_audit_trail_refuses_changes_even_in_sql(statement):
    make_team()
    with (
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEvent.objects.count() == 1


@pytest.mark.parametrize("slug", ["", "A", "a_b", "-a", "a-", "1a", "a\n", "ä"])
def test_a_malformed_slug_is_refused_by_the_database(slug):
    with pytest.raises(IntegrityError), transaction.atomic():
        Team.objects.create(slug=slug, name="x")


@pytest.mark.parametrize("slug", ["a", "a1", "a-b", "a--b", "v" * 40])
def test_a_sound_slug_is_accepted(slug):
    assert make_team(slug).namespace_name == f"team-{slug}"


@pytest.mark.parametrize("values", [{"namespace": "A"}, {"pod_security": "privileged"}])
def test_a_senseless_team_is_refused_by_the_database(values):
    with pytest.raises(IntegrityError), transaction.atomic():
        Team.objects.create(slug="a", name="x", **values)


@pytest.mark.parametrize("values", [{"closed_at": clock.now()}, {"closing_since": clock.now()}])
def test_a_team_is_not_closed_before_it_is_closing_nor_without_a_reason(values):
    with pytest.raises(IntegrityError), transaction.atomic():
        Team.objects.create(slug="a", name="x", **values)


def test_the_old_default_of_pod_security_becomes_the_new_one_but_in_namespaces_of_others():
    before = {"a": "baseline", "b": "restricted", "c": "baseline"}
    for slug, level in before.items():
        make_team(slug, pod_security=level, namespace="theirs" if slug == "c" else None)
    migration = import_module("teams.migrations.0009_pod_security_by_default")
    with connection.cursor() as cursor:
        cursor.execute(migration.LEAVE_IT_TO_THE_PLATFORM)
        levels = Team.objects.in_bulk(field_name="slug")
        assert {slug: team.pod_security for slug, team in levels.items()} == {**before, "a": "automatic"}
        cursor.execute(migration.BACK_TO_BASELINE)
    assert {
        slug: team.pod_security for slug, team in Team.objects.in_bulk(field_name="slug").items()
    } == before


def test_a_membership_is_unique_and_its_role_known():
    member = make_member()
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(team=member.team, user=member.user)
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.filter(pk=member.pk).update(role="owner")


@pytest.mark.parametrize(
    "values", [{"digest": "plain"}, {"revoked_at": None, "revoked_by": True}, {"expires_at": True}]
)
def test_a_senseless_token_is_refused_by_the_database(values):
    user = make_user()
    make_token(user)
    token = ApiToken.objects.get()
    if values.get("revoked_by"):
        values = values | {"revoked_by": user}
    if values.get("expires_at"):
        values = {"expires_at": token.created_at}
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiToken.objects.update(**values)


def test_a_link_is_used_only_while_it_is_valid():
    services.create_sign_in_link(actor=ACTOR, user=make_user(), now=clock.now())
    link = SignInLink.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        SignInLink.objects.update(used_at=link.expires_at + timedelta(seconds=1))


def test_usernames_differ_in_more_than_case():
    make_user("ana")
    with pytest.raises(Conflict):
        make_user("Ana")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create(username="ANA")


def test_users_with_a_global_role_enter_the_console_and_lose_it_with_the_role():
    user = make_user(quota_manager=True)
    assert user.is_staff
    changed = services.set_global_roles(
        actor=ACTOR, user=user, quota_manager=False, platform_admin=False, now=clock.now()
    )
    assert not changed.is_staff
    event = AuditEvent.objects.get(action="user.set-roles")
    assert (event.before, event.after) == ({"is_quota_manager": True}, {"is_quota_manager": False})


def test_a_weak_password_is_refused():
    with pytest.raises(Invalid) as caught:
        services.set_password(actor=ACTOR, user=make_user(), password="12345", now=clock.now())
    assert caught.value.errors[0].field == "password"


def test_a_failed_service_leaves_no_audit_event():
    team = make_team("vision")
    before = AuditEvent.objects.count()
    with pytest.raises(Conflict):
        make_team("vision")
    with pytest.raises(Invalid):
        services.add_member(actor=ACTOR, team=team, user=make_user("x"), role="owner", now=clock.now())
    assert AuditEvent.objects.count() == before + 1  # the user


def test_secrets_never_reach_the_trail():
    user = make_user(password="correct horse battery staple")
    services.set_password(actor=ACTOR, user=user, password="another long passphrase", now=clock.now())
    link = services.create_sign_in_link(actor=ACTOR, user=user, now=clock.now())
    trail = str(list(AuditEvent.objects.values("before", "after", "reason")))
    for secret in ("correct horse", "another long", link):
        assert secret not in trail


def outcome(check, user, team) -> type | None:
    try:
        check(user, team)
    except (NotFound, NotAllowed) as error:
        return type(error)
    return None


MATRIX = [
    # who, view, submit, manage
    ("stranger", NotFound, NotFound, NotFound),
    ("viewer", None, NotAllowed, NotAllowed),
    ("member", None, None, NotAllowed),
    ("lead", None, None, None),
    ("quota-manager", None, NotAllowed, NotAllowed),
    ("platform-admin", None, None, None),
    ("inactive", NotFound, NotFound, NotFound),
    ("other-team-token", NotFound, NotFound, NotFound),
    ("admin-with-team-token", None, NotAllowed, NotAllowed),
]


@pytest.mark.parametrize(("who", "view", "submit", "manage"), MATRIX)
def test_who_may_do_what(who, view, submit, manage):
    team = make_team()
    user = make_user(
        quota_manager=who == "quota-manager",
        platform_admin=who in {"platform-admin", "admin-with-team-token"},
    )
    roles = {"inactive": "lead", "other-team-token": "lead", "admin-with-team-token": "viewer"}
    if (role := roles.get(who, who)) in Membership.Role.values:
        make_member(role, team=team, user=user)
    user.is_active = who != "inactive"
    user.bound_team_id = {"other-team-token": make_team().pk, "admin-with-team-token": team.pk}.get(who)
    assert outcome(permissions.check_can_submit, user, team) is submit
    assert outcome(permissions.check_can_manage, user, team) is manage
    slugs = [team.slug, make_team().slug, "nothing"]
    seen = set(permissions.visible_teams(user).values_list("slug", flat=True))
    assert (team.slug in seen) == (view is None)
    assert permissions.visible_slugs([user], slugs) == [frozenset(seen & set(slugs))]
