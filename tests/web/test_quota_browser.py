"""What people do on the quota pages, in Chromium, with and without JavaScript."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quotas.models import Quota
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.teams import make_team
from tests.patience import expect
from tests.web.browsing import chromium, either_way, needs_chromium, open_page, session_of
from tests.web.quota_world import QuotaWorld

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]

QUOTA = "Quota: vision, a100-40gb on-demand"


@pytest.fixture
def world(full) -> QuotaWorld:
    return full


def edit(page, label: str, text: str) -> None:
    """Write into a cell and leave it; without scripts that alone does nothing."""
    page.get_by_label(label).fill(text)
    page.keyboard.press("Tab")


@either_way
def test_a_cut_is_written_previewed_applied_and_taken_back(live_server, world, script):
    session = session_of(world.manager)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto("/")
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Quotas").click()
        edit(page, QUOTA, "7")
        if script:
            page.get_by_text("1 change in 1 team").wait_for()
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("heading", name="What it would do").wait_for()
        page.get_by_label("Why").fill("The nodes move to another cluster.")
        page.get_by_role("button", name="Apply all").click()
        page.get_by_text("1 quota changed.").wait_for()
        page.get_by_role("textbox", name="Why").fill("They stay.")
        page.get_by_role("button", name="Undo the change set").click()
        page.get_by_text("The change set was taken back.").wait_for()
        assert complaints == []
    assert Quota.objects.get(team=world.team, flavor=world.a100).nominal == 18


def test_edits_show_up_while_one_goes_on_writing(live_server, world):
    session = session_of(world.manager)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/quotas/")
        page.evaluate("window.kept = true")
        edit(page, QUOTA, "x")
        cell = page.get_by_label(QUOTA)
        page.get_by_text("Write a whole number, 0 or more.").wait_for()
        page.locator(".grid [aria-invalid]").wait_for()
        assert "changed" in cell.get_attribute("class")
        assert page.evaluate("document.activeElement.name").startswith("borrowing_limit~vision")
        edit(page, QUOTA, "18")
        page.get_by_text("Nothing changed yet").wait_for()
        page.locator(".grid:not(:has([aria-invalid]))").first.wait_for()
        assert "changed" not in (cell.get_attribute("class") or "")
        assert page.evaluate("window.kept")
        assert complaints == []


def test_the_preview_follows_what_is_typed(live_server, world):
    session = session_of(world.manager)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/quotas/")
        edit(page, QUOTA, "12")
        page.get_by_text("1 change in 1 team").wait_for()
        page.get_by_role("button", name="Preview").click()
        page.evaluate("window.kept = true")
        edit(page, QUOTA, "40")
        page.locator("#effects").get_by_text("40").first.wait_for()
        page.get_by_label("What runs above the new limits").check()
        page.get_by_text("What runs goes on, also above the new limits.").wait_for(state="detached")
        assert page.evaluate("window.kept")
        assert complaints == []


@pytest.mark.matrix
def test_head_and_first_column_stay_and_never_cover_the_focus(live_server, world):
    for index in range(24):
        make_quota(make_team(f"many-{index:02}"), world.a100, 1)
    for index in range(7):
        make_flavor(f"flavor-{index}")
    session = session_of(world.manager)
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, session)
        page.goto("/quotas/")
        names = page.locator(".grid input").evaluate_all("inputs => inputs.map(each => each.id)")
        last, first = names[-1], names[0]
        for name in names[:24:3]:
            page.evaluate("id => document.getElementById(id).focus()", name)
            page.keyboard.type("7")
        page.keyboard.press("Tab")
        page.get_by_text("8 changes in").wait_for()
        page.evaluate("id => document.getElementById(id).focus()", last)
        assert page.locator(".grid-scroll").evaluate("node => node.scrollLeft > 0 && node.scrollTop > 0")
        covered = """id => {
            const box = document.getElementById(id).getBoundingClientRect();
            const at = (x, y) => document.elementFromPoint(x, y)?.id === id;
            return !(at(box.left + 2, box.top + 2) && at(box.right - 2, box.bottom - 2));
        }"""
        head = page.locator(".grid thead th").first.bounding_box()
        row = page.locator(".grid tbody th").last.bounding_box()
        scroller = page.locator(".grid-scroll").bounding_box()
        assert abs(head["y"] - scroller["y"]) < 2
        assert abs(row["x"] - scroller["x"]) < 2
        assert not page.evaluate(covered, last)
        for name in (names[-40], names[len(names) // 2], names[len(names) // 3], first):
            page.evaluate("id => document.getElementById(id).focus()", name)
            assert not page.evaluate(covered, name), name


def test_the_grid_is_gone_through_by_keys(live_server, world):
    session = session_of(world.manager)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/quotas/")
        rows = page.locator(".grid tbody tr")
        first = rows.nth(0).locator("input").nth(0)
        first.click()
        page.keyboard.press("ArrowDown")
        expect(rows.nth(1).locator("input").nth(0)).to_be_focused()
        page.keyboard.press("ArrowRight")
        expect(rows.nth(1).locator("input").nth(1)).to_be_focused()
        page.keyboard.press("ArrowLeft")
        page.keyboard.type("7")
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowUp")
        expect(rows.nth(1).locator("input").nth(0)).to_have_value("7")
        page.get_by_text("1 change in 1 team").wait_for()
        page.keyboard.press("Escape")
        page.get_by_text("Nothing changed yet").wait_for()
        assert complaints == []


@pytest.mark.matrix
def test_a_member_asks_for_more_and_a_manager_approves_without_a_script(live_server, world):
    member, manager = session_of(world.ana), session_of(world.manager)
    until = f"{world.now + timedelta(days=20):%Y-%m-%d}"
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, member, script=False)
        page.goto("/teams/vision/")
        page.get_by_role("link", name="All about the quota").click()
        page.get_by_role("link", name="Ask for more").click()
        page.get_by_label("Units more").fill("3")
        page.get_by_label("Until").fill(until)
        page.get_by_label("Why", exact=True).fill("A workshop.")
        page.get_by_role("button", name="Ask").click()
        asked = page.get_by_text("Asked. A quota manager decides").or_(page.locator(".field-error"))
        asked.first.wait_for()
        assert page.locator(".field-error").count() == 0
        page, _ = open_page(browser, live_server.url, manager, script=False)
        page.goto("/quotas/requests/")
        page.get_by_role("link", name="See what it would do, and answer 3 a100-40gb for Vision").click()
        page.get_by_role("button", name="Approve").click()
        page.get_by_text("3 more a100-40gb for Vision").wait_for()
        assert complaints == []
    assert Quota.objects.get(team=world.team, flavor=world.a100).nominal == 21
