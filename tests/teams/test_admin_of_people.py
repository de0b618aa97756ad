from __future__ import annotations

import pytest
from django.test import Client

from teams.models import ApiToken, AuditEvent, Membership, Team, User
from tests.factories.teams import make_member, make_team, make_token, make_user

MODELS = ["team", "user", "membership", "apitoken", "auditevent"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(make_user("root", platform_admin=True))
    return client


def url(model: str, rest: str = "") -> str:
    return f"/admin/teams/{model}/{rest}"


@pytest.mark.parametrize("model", MODELS)
def test_lists_and_rows_open_for_a_platform_admin(admin, model):
    member = make_member()
    make_token(member.user)
    row = {
        "team": member.team, "user": member.user, "membership": member,
        "apitoken": ApiToken.objects.first(), "auditevent": AuditEvent.objects.first(),
    }[model]  # fmt: skip
    assert admin.get(url(model)).status_code == 200
    assert admin.get(url(model, f"{row.pk}/change/")).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_a_quota_manager_has_no_business_with_people(model):
    client = Client()
    client.force_login(make_user(quota_manager=True))
    assert client.get(url(model)).status_code == 403


@pytest.mark.parametrize("model", ["apitoken", "auditevent"])
def test_tokens_and_the_trail_are_read_only(admin, model):
    make_token(make_user())
    row = {"apitoken": ApiToken, "auditevent": AuditEvent}[model].objects.first()
    assert admin.get(url(model, "add/")).status_code == 403
    assert admin.post(url(model, f"{row.pk}/change/"), {"name": "x"}).status_code == 403
    assert admin.post(url(model, f"{row.pk}/delete/"), {"post": "yes"}).status_code == 403


def test_no_secret_is_shown(admin):
    user = make_user()
    plain = make_token(user)
    token = ApiToken.objects.get()
    for page in (url("apitoken"), url("apitoken", f"{token.pk}/change/"), url("user", f"{user.pk}/change/")):
        html = admin.get(page).content.decode()
        assert plain not in html
        assert token.digest not in html
        assert user.password not in html


def actions() -> list[str]:
    return list(AuditEvent.objects.filter(actor_label="root").order_by("id").values_list("action", flat=True))


def test_a_team_is_made_changed_and_deleted_with_a_trail(admin):
    values = {
        "slug": "vision",
        "name": "Vision",
        "cohort_name": "",
        "namespace": "",
        "pod_security": "baseline",
    }
    assert admin.post(url("team", "add/"), values).status_code == 302
    team = Team.objects.get()
    assert admin.post(url("team", f"{team.pk}/change/"), values | {"name": "Seeing"}).status_code == 302
    team.refresh_from_db()
    assert (team.name, team.version) == ("Seeing", 2)
    assert admin.post(url("team", f"{team.pk}/delete/"), {"post": "yes"}).status_code == 302
    assert not Team.objects.exists()
    assert actions() == ["team.create", "team.update", "team.delete"]


def test_what_the_service_refuses_is_said_and_changes_nothing(admin):
    make_team("third", namespace="team-fourth")
    values = {"slug": "fourth", "name": "x", "cohort_name": "", "namespace": "", "pod_security": "baseline"}
    page = admin.post(url("team", "add/"), values, follow=True)
    assert "Another team uses the namespace team-fourth." in page.content.decode()
    assert Team.objects.count() == 1
    assert actions() == []


def test_a_membership_is_made_changed_and_deleted_with_a_trail(admin):
    team, user = make_team(), make_user()
    assert (
        admin.post(
            url("membership", "add/"), {"team": team.pk, "user": user.pk, "role": "viewer"}
        ).status_code
        == 302
    )
    member = Membership.objects.get()
    assert admin.post(url("membership", f"{member.pk}/change/"), {"role": "lead"}).status_code == 302
    assert admin.post(url("membership", f"{member.pk}/delete/"), {"post": "yes"}).status_code == 302
    assert actions() == ["membership.create", "membership.change-role", "membership.delete"]


def test_a_user_is_made_and_changed_with_a_trail_and_never_deleted(admin):
    form = {"username": "ana", "email": "", "new_password": "a long enough passphrase"}
    assert admin.post(url("user", "add/"), form).status_code == 302
    ana = User.objects.get(username="ana")
    assert ana.check_password("a long enough passphrase")
    assert Client().login(username="ana", password="a long enough passphrase")
    changed = {"is_quota_manager": "on", "new_password": ""}
    assert admin.post(url("user", f"{ana.pk}/change/"), changed).status_code == 302
    ana.refresh_from_db()
    assert (ana.is_active, ana.is_quota_manager, ana.is_staff) == (False, True, True)
    assert ana.check_password("a long enough passphrase")
    assert admin.post(url("user", f"{ana.pk}/delete/"), {"post": "yes"}).status_code == 403
    assert actions() == ["user.create", "user.set-password", "user.set-roles", "user.deactivate"]


def test_a_weak_password_is_refused_and_no_user_made(admin):
    page = admin.post(url("user", "add/"), {"username": "ana", "email": "", "new_password": "1"}, follow=True)
    assert "too short" in page.content.decode()
    assert not User.objects.filter(username="ana").exists()


def test_an_admin_hands_out_a_sign_in_link(admin):
    ana = make_user("ana", password=None)
    action = {"action": "make_sign_in_link", "_selected_action": [ana.pk]}
    html = admin.post(url("user"), action, follow=True).content.decode()
    assert "http://testserver/sign-in/link/" in html


def test_an_admin_revokes_tokens(admin):
    make_token(make_user())
    token = ApiToken.objects.get()
    admin.post(url("apitoken"), {"action": "revoke", "_selected_action": [token.pk]})
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert actions() == ["token.revoke"]


def test_the_console_asks_at_the_portals_own_sign_in():
    page = Client().get("/admin/", follow=True)
    assert page.redirect_chain[-1][0] == "/sign-in/?next=/admin/"
    assert Client().post("/admin/login/", {"username": "root", "password": "x"}).status_code == 302


def test_the_console_is_closed_to_who_has_no_global_role():
    client = Client()
    client.force_login(make_user())
    assert client.get("/admin/", follow=True).status_code == 403
