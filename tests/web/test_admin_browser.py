"""The admin site in Chromium: everything comes from the portal, and its policy stops nothing that a page needs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from quotas.changes import LimitChange, apply_changes
from quotas.models import Quota, QuotaChangeSet
from teams.actors import Actor
from teams.models import Membership
from tests.factories.teams import make_user
from tests.web.browsing import (
    LOOKS,
    chromium,
    faults,
    meanwhile,
    needs_chromium,
    open_page,
    session_of,
    show,
    too_wide_between,
)

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def root(world):
    return session_of(make_user("root", platform_admin=True))


def addresses(world) -> list[str]:
    return [
        "/admin/",
        "/admin/teams/user/",
        f"/admin/teams/team/{world.team.pk}/change/",
        "/admin/teams/membership/add/",
        "/admin/costs/price/add/",
        f"/admin/quotas/quotachangeset/{change_set_of(world).pk}/change/",
    ]


def change_set_of(world) -> QuotaChangeSet:
    """A page with rows of another model in it, all to look at."""
    quota = Quota.objects.filter(team=world.team).first()
    change = LimitChange(quota.team, quota.flavor, quota.capacity_type, {"nominal": quota.nominal + 1})
    actor = Actor.of_user(world.manager)
    return apply_changes(changes=[change], reason="one more", evicts=False, actor=actor, now=world.now)


@pytest.mark.sweep
@pytest.mark.matrix
def test_pages_are_accessible_quiet_and_load_only_what_is_the_portals(live_server, world, made, root):
    wanted = addresses(world)
    asked: set[str] = set()
    found: list[str] = []
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, root)
        page.on("request", lambda request: asked.add(request.url))
        for address in wanted:
            for look in LOOKS:
                show(page, look)
                page.goto(address, wait_until="networkidle")
                assert page.get_by_role("heading", level=1).is_visible()
                assert page.locator("html.dark").count() == (look[1] == "dark")
                found += faults(page, look, advice=False, colours=look[1] == "dark")
            found += too_wide_between(page)
        assert found == []
        assert complaints == []
    assert {f"{each.scheme}://{each.netloc}" for each in map(urlsplit, asked)} == {live_server.url}
    assert [url for url in asked if url.endswith(".woff2")], "the fonts of the theme were not asked for"


@pytest.mark.matrix
def test_the_menu_and_the_theme_are_as_they_were_left(live_server, world, root):
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, root)
        page.goto("/admin/")
        menu = page.locator("#nav-sidebar")
        page.get_by_text("dock_to_right").locator("visible=true").click()
        menu.wait_for(state="hidden")
        page.reload()
        menu.wait_for(state="hidden")
        page.get_by_text("dock_to_right").locator("visible=true").click()
        menu.get_by_text("root").click()
        menu.get_by_text("Dark", exact=True).click()
        page.locator("html.dark").wait_for()
        page.reload()
        page.locator("html.dark").wait_for()
        show(page, (360, "light"))
        menu.wait_for(state="hidden")
        page.get_by_text("dock_to_right").locator("visible=true").click()
        menu.get_by_role("link", name="Quota requests").click()
        page.wait_for_url("**/admin/quotas/quotarequest/")
        assert complaints == []


@pytest.mark.matrix
def test_rows_are_filtered_and_acted_on(live_server, world, root):
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, root)
        page.goto("/admin/teams/user/")
        page.get_by_text("Filters").click()
        page.locator("#changelist-filter").get_by_role("link", name="Yes").nth(1).click()
        page.wait_for_url("**/?is_quota_manager__exact=1")
        page.locator("tr", has_text="qm").locator("input.action-select").check()
        page.locator('select[name="action"]').select_option("make_sign_in_link")
        page.get_by_role("button", name="Run").click()
        page.get_by_text(re.compile(r"qm, for one hour, shown once: http")).wait_for()
        assert complaints == []


@pytest.mark.matrix
def test_a_member_is_chosen_by_typing_and_saved(live_server, world, root):
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, root)
        page.goto("/admin/teams/membership/add/")
        for label, name in (("Team", "speech"), ("User", "ana")):
            page.get_by_role("combobox", name=label).click()
            page.locator(".select2-search__field").fill(name)
            page.locator(".select2-results__option--highlighted", has_text=name).click()
        page.get_by_label("Role").select_option("lead")
        page.get_by_role("button", name="Save", exact=True).click()
        page.wait_for_url("**/admin/teams/membership/")
        assert complaints == []
        role = meanwhile(lambda: Membership.objects.get(team=world.other, user=world.ana).role)
    assert role == "lead"


@pytest.mark.matrix
def test_a_price_begins_at_a_moment_chosen_from_the_calendar(live_server, world, root):
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, root)
        page.goto("/admin/costs/price/add/")
        page.locator("#calendarlink0").click()
        page.locator("#calendarbox0").get_by_role("link", name="Today").click()
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", page.locator("#id_valid_from_0").input_value())
        assert complaints == []


@pytest.mark.matrix
def test_a_page_shows_without_scripts(live_server, world, root):
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, root, script=False)
        page.goto("/admin/teams/user/")
        page.get_by_role("link", name="ana", exact=True).click()
        page.get_by_role("heading", level=1).wait_for()
