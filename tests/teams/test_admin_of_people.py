from __future__ import annotations

import re

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Permission
from django.test import Client

from teams.models import ApiToken, AuditEvent, Membership, Team, User
from tests.factories.teams import PASSWORD, make_member, make_team, make_token, make_user

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
    told = ["user.create", "user.set-password", "user.set-roles", "user.deactivate", "request.refuse"]
    assert actions() == told


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


# --- what Django's admin site brings along by itself


def test_the_consoles_pages_of_the_password_are_the_portals_own(admin):
    for path in ("/admin/password_change/", "/admin/password_change/done/"):
        for answer in (admin.get(path), admin.post(path, {"old_password": PASSWORD})):
            assert (answer.status_code, answer["Location"]) == (302, "/profile/password/")
    assert User.objects.get(username="root").check_password(PASSWORD)
    assert Client().get("/admin/password_change/", follow=True).redirect_chain[-1][0].startswith("/sign-in/")


def test_groups_have_no_pages_and_nobody_is_put_into_one(admin):
    assert admin.get("/admin/auth/group/").status_code == 404
    assert admin.post("/admin/auth/group/add/", {"name": "everything"}).status_code == 404
    ana = make_user("ana")
    html = admin.get(url("user", f"{ana.pk}/change/")).content.decode()
    assert not re.search(r'name="(groups|user_permissions|is_superuser|is_staff)"', html)
    changed = {
        "is_active": "on",
        "new_password": "",
        "groups": ["1"],
        "user_permissions": ["1"],
        "is_superuser": "on",
    }
    assert admin.post(url("user", f"{ana.pk}/change/"), changed).status_code == 302
    ana.refresh_from_db()
    assert not ana.is_superuser
    assert not ana.groups.exists()
    assert not ana.user_permissions.exists()


def test_a_right_of_djangos_own_opens_nothing():
    """Groups and permissions of a row that is older than this rule are without effect."""
    client, user = Client(), make_user("old")
    user.is_staff = True
    user.save()
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="teams"))
    client.force_login(user)
    for model in MODELS:
        assert client.get(url(model)).status_code == 403, model


def _views(patterns, prefix="/admin/"):
    for pattern in patterns:
        path = prefix + re.sub(r"<[^>]*>", "1", str(pattern.pattern)).replace("^", "").replace("$", "")
        yield from _views(pattern.url_patterns, path) if hasattr(pattern, "url_patterns") else [path]


# Only where it leads: what it is about is the portal's own page.
OPEN_TO_ALL = {"/admin/login/"}


def test_every_address_of_the_console_asks_who_is_there():
    """Those that Django and its theme add by themselves too: histories, autocompletion, translations, redirects."""
    paths = {re.sub(r"\(.*\)", "x", path) for path in _views(site.get_urls())}
    assert {"/admin/jsi18n/", "/admin/autocomplete/", "/admin/password_change/", "/admin/r/1/1/"} <= paths
    nobody, somebody = Client(), Client()
    somebody.force_login(make_user())
    for path in sorted(paths - OPEN_TO_ALL):
        for answer in (nobody.get(path), nobody.post(path)):
            assert (answer.status_code, answer["Location"].split("?")[0]) in {
                (302, "/admin/login/"),
                (302, "/sign-in/"),
                (302, "/admin/"),
            }, path
        assert somebody.get(path).status_code in {302, 403, 404, 405}, path


def test_a_team_is_closed_and_reopened_on_a_page_that_says_what_ends(admin):
    team = make_member("lead").team
    chosen = {"action": "close_or_reopen", "_selected_action": [team.pk]}
    page = admin.post(url("team"), chosen)
    assert (page.status_code, page["Location"]) == (302, f"/teams/{team.slug}/close/")
    shown = admin.get(page["Location"])
    assert b"Live runs" in shown.content
    wrong = admin.post(page["Location"], {"reason": "over", "confirm": "another"})
    assert wrong.status_code == 422
    assert f"Type {team.slug} to confirm".encode() in wrong.content
    assert admin.post(page["Location"], {"reason": " ", "confirm": team.slug}).status_code == 422
    team.refresh_from_db()
    assert team.state == "open"
    assert admin.post(page["Location"], {"reason": "over", "confirm": team.slug}).status_code == 303
    team.refresh_from_db()
    assert (team.state, team.closing_reason, team.closed_by.username) == ("closing", "over", "root")
    assert b"is being closed since" in admin.get(f"/teams/{team.slug}/").content
    assert admin.post(f"/teams/{team.slug}/reopen/", {"reason": "not yet"}).status_code == 303
    team.refresh_from_db()
    assert team.state == "open"


def test_the_page_that_closes_a_team_is_for_platform_admins_alone():
    lead, client = make_member("lead"), Client()
    client.force_login(lead.user)
    address = f"/teams/{lead.team.slug}/close/"
    assert client.get(address).status_code == 403
    assert client.post(address, {"reason": "over", "confirm": lead.team.slug}).status_code == 403
    assert address.encode() not in client.get(f"/teams/{lead.team.slug}/").content


def test_several_teams_are_not_closed_at_once(admin):
    teams = [make_member("lead").team, make_member("lead").team]
    chosen = {"action": "close_or_reopen", "_selected_action": [team.pk for team in teams]}
    answer = admin.post(url("team"), chosen, follow=True)
    assert b"Choose one team." in answer.content
