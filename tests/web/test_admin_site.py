"""The admin site as one document: its name, its menu, its fields, and the one content security policy of all pages."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.staticfiles import finders
from django.test import Client, RequestFactory
from django.utils.text import capfirst

from foundation import clock
from portal.admin_site import MENU
from teams import services
from teams.actors import Actor
from teams.models import AuditEvent
from tests.factories.teams import make_user
from tests.security.test_csrf_and_headers import no_inline

pytestmark = pytest.mark.django_db

VENDOR = settings.BASE_DIR / "static" / "vendor"
NAME = "ML Platform Portal"
# What the portal sent before it had a theme for the admin site, on every page.
POLICY = {
    "default-src 'self'",
    f"connect-src 'self' {settings.LIVE_URL}",
    f"frame-src 'self' {settings.LIVE_URL}",
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
}


def browser(**roles) -> Client:
    client = Client()
    client.force_login(make_user("root", **roles))
    return client


def menu_of(client: Client) -> dict[str, list[str]]:
    """Groups and items as they stand in the page."""
    html = client.get("/admin/").content.decode()
    aside = html[html.index('id="nav-sidebar-apps"') : html.index('id="main"')]
    found = {}
    for part in aside.split("<h2")[1:]:
        title = re.sub(r"\s+", " ", re.search(r">\s*(.*?)\s*</h2>", part, re.DOTALL)[1])
        if items := re.findall(r'<a href="(/admin/\w+/\w+/)"', part):
            found[title] = items
    return found


def listed_in(client: Client) -> set[str]:
    """What the index lists, which is what Django lets its visitor see."""
    apps = client.get("/admin/").context["app_list"]
    return {model["admin_url"] for app in apps for model in app["models"]}


@pytest.mark.parametrize("roles", [{"platform_admin": True}, {"quota_manager": True}])
def test_the_menu_holds_once_what_its_visitor_may_see_and_no_more(roles):
    client = browser(**roles)
    items = [item for group in menu_of(client).values() for item in group]
    assert len(items) == len(set(items))
    assert set(items) == listed_in(client)


def test_a_quota_manager_finds_quotas_and_nobody_else_in_the_menu():
    menu = menu_of(browser(quota_manager=True))
    assert list(menu) == ["Quotas and prices", "Workloads", "Platform"]
    assert "/admin/workloads/workload/" not in menu["Workloads"]
    assert "/admin/quotas/quota/" in menu["Quotas and prices"]


def test_all_that_is_registered_has_a_place_in_the_menu():
    labels = [label for group in MENU.values() for label in group]
    assert sorted(labels) == sorted(model._meta.label for model in admin.site._registry)


def test_the_site_is_called_what_the_portal_is():
    html = browser(platform_admin=True).get("/admin/").content.decode()
    assert re.search(rf"<title>[^<]*\| {NAME}</title>", html)
    assert re.search(rf'<a href="/admin/">\s*{NAME}\s*</a>', html)


def test_plurals_are_words():
    plurals = {capfirst(str(model._meta.verbose_name_plural)) for model in admin.site._registry}
    assert {"Ledger entries", "Team policies", "Quotas", "API tokens"} <= plurals
    assert not [each for each in plurals if re.search(r"[^aeiou]ys$|ss$", each)]


def test_the_search_that_keeps_objects_in_the_cache_is_off():
    assert browser(platform_admin=True).get("/admin/search/?s=team").status_code == 404


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label_lower)
def test_every_field_of_a_form_has_a_frame(model):
    """The theme takes all frames away and gives them back by class: a field without one cannot be seen."""
    page, request = admin.site.get_model_admin(model), RequestFactory().get("/")
    request.user = make_user("root", platform_admin=True)
    if not page.has_add_permission(request):
        return
    form = page.get_form(request)()
    bare = [field.name for field in form.visible_fields() if 'class="' not in str(field)]
    assert bare == []


EVIL = """'"><b x-data="{}" x-init="alert(1)">{{ 7|add:7 }}</b>"""


def test_text_of_users_is_text_on_every_page_and_no_attribute_of_alpine():
    client, actor = browser(platform_admin=True), Actor.of_user(make_user("boss", platform_admin=True))
    team = services.create_team(actor=actor, slug="vision", name=EVIL, now=clock.now())
    services.update_team(actor=actor, team=team, changes={"name": EVIL + "!"}, now=clock.now())
    event = AuditEvent.objects.get(action="team.update")
    pages = ["/admin/teams/team/", "/admin/teams/auditevent/"]
    pages += [f"/admin/teams/team/{team.pk}/{each}/" for each in ("change", "delete", "history")]
    pages += [f"/admin/teams/auditevent/{event.pk}/change/", f"/admin/teams/team/?q={quote(EVIL)}"]
    shown = 0
    for page in pages:
        html = client.get(page).content.decode()
        assert "<b x-data" not in html, page
        assert "alert(1)" not in " ".join(re.findall(r'\s(?:x-|@|:)[\w:.-]+="([^"]*)"', html)), page
        shown += "alert(1)" in html
    assert shown >= 4


# --- the content security policy


@pytest.mark.parametrize(
    "path",
    [
        "/admin/",
        "/admin/teams/user/",
        "/admin/teams/user/add/",
        "/admin/quotas/quota/add/",
        "/admin/costs/price/add/",
        "/admin/password_change/",
        "/admin/jsi18n/",
        "/admin/no-such-page/",
        "/admin",
        "/administrator/",
        "/admin/../",
        "/admin/..%2f",
        "/ADMIN/",
        "/",
        "/profile/",
        "/sign-in/",
        "/runs/?next=/admin/",
        "/api/v1/me/",
        "/no-such-page/",
    ],
)
def test_the_policy_is_the_same_on_the_admin_site_and_outside_of_it(path):
    client = browser(platform_admin=True)
    told = client.get(path)["Content-Security-Policy"]
    assert told == Client().get("/sign-in/")["Content-Security-Policy"]
    assert set(told.split("; ")) == POLICY


@pytest.mark.parametrize(
    "path",
    ["/admin/", "/admin/teams/user/", "/admin/teams/user/add/", "/admin/costs/price/add/", "/admin/teams/"],
)
def test_no_page_of_the_admin_site_has_what_the_policy_would_stop(path):
    page = browser(platform_admin=True).get(path)
    assert page.status_code == 200
    assert no_inline(page.content.decode()) == []


def test_json_is_text_in_lines_without_styles():
    """Where pygments is installed, as it is with the tests, the theme would colour it by styles in the page."""
    client = browser(platform_admin=True)
    made = make_user("boss", platform_admin=True)
    services.create_team(actor=Actor.of_user(made), slug="vision", name="<i>Vision</i>", now=clock.now())
    event = AuditEvent.objects.get(action="team.create")
    html = client.get(f"/admin/teams/auditevent/{event.pk}/change/").content.decode()
    assert no_inline(html) == []
    assert "\n  &quot;name&quot;: &quot;&lt;i&gt;Vision&lt;/i&gt;&quot;" in html
    assert "null" not in re.findall(r"<pre[^>]*>([^<]*)</pre>", html)


def test_the_themes_alpine_is_the_build_that_needs_no_eval():
    """Every file that the table names is what it was, and the theme's own Alpine is found behind ours."""
    rows = re.findall(
        r"^\| `([^`]+)` .*`([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 2
    for name, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
    path = "unfold/js/alpine/alpine.js"
    assert Path(finders.find(path)) == settings.BASE_DIR / "static" / path
