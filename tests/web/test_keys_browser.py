"""Keys and the palette in Chromium: they lead where they say, and leave alone who types."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.patience import expect
from tests.web.browsing import chromium, faults, needs_chromium, open_page, session_of

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]


def at(page: Page, path: str) -> None:
    expect(page).to_have_url(re.compile(f"{re.escape(path)}$"))


@pytest.mark.matrix
def test_keys_go_to_pages_rows_and_the_filter_and_are_plain_letters_in_a_field(live_server, world, made):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/")
        page.keyboard.press("g")
        page.keyboard.press("r")
        at(page, "/runs/")
        page.keyboard.press("/")
        search = page.get_by_label("Words of the name, or an id")
        expect(search).to_be_focused()
        page.keyboard.type("jgrn?")
        expect(search).to_have_value("jgrn?")
        search.blur()
        rows = page.locator("#list tbody a.name")
        page.keyboard.press("j")
        page.keyboard.press("j")
        expect(rows.nth(1)).to_be_focused()
        page.keyboard.press("k")
        expect(rows.nth(0)).to_be_focused()
        opened = rows.nth(0).get_attribute("href")
        page.keyboard.press("Enter")
        at(page, opened)
        page.keyboard.press("g")
        page.keyboard.press("e")
        at(page, "/endpoints/")
        page.keyboard.press("n")
        at(page, "/endpoints/new/")
        assert complaints == []


def test_the_palette_finds_a_run_and_asks_before_it_cancels_one(live_server, world, made):
    session, run = session_of(world.ana), made["bert-large"]
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/costs/")
        page.keyboard.press("Control+k")
        palette = page.get_by_role("dialog", name="Go to a page")
        expect(palette.get_by_role("link", name="New run")).to_be_visible()
        assert faults(page) == []
        page.keyboard.type("bert lar")
        page.keyboard.press("Enter")
        at(page, run.page_url)
        page.keyboard.press("Control+k")
        page.keyboard.type("cancel bert")
        expect(palette.get_by_role("link", name="Cancel bert-large…")).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Escape")
        expect(palette).to_be_hidden()
        page.keyboard.press("Control+k")
        page.keyboard.type("canc")
        palette.get_by_role("button", name="Cancel").press("Enter")
        expect(page.get_by_role("dialog", name="Cancel bert-large?")).to_be_visible()
        page.goto(f"{run.page_url}#do-cancel")
        page.reload()
        expect(page.get_by_role("dialog", name="Cancel bert-large?")).to_be_visible()
        assert complaints == []


@pytest.mark.matrix
def test_the_list_of_keys_opens_and_single_keys_can_be_switched_off(live_server, world):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/profile/")
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keys")
        expect(keys.get_by_text("Go to Runs")).to_be_visible()
        assert faults(page) == []
        page.keyboard.press("Escape")
        expect(keys).to_be_hidden()
        page.get_by_role("button", name="Switch single keys off").click()
        page.get_by_role("button", name="Switch single keys on").wait_for()
        page.keyboard.press("?")
        page.keyboard.press("g")
        page.keyboard.press("r")
        expect(keys).to_be_hidden()
        at(page, "/profile/")
        page.keyboard.press("Control+k")
        expect(page.get_by_role("dialog", name="Go to a page")).to_be_visible()
        assert complaints == []


@pytest.mark.matrix
def test_keys_work_beside_parts_that_come_anew_and_after_the_way_back(live_server, world, made):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/runs/")
        page.keyboard.press("j")
        focused = page.evaluate("document.activeElement.id")
        with page.expect_response(lambda answer: answer.url.endswith("/runs/")):
            page.evaluate("htmx.trigger(document.body, 'live:poll')")
        expect(page.locator(f"#{focused}")).to_be_focused()
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Events").click()
        at(page, "?tab=events")
        page.go_back()
        page.locator("#tab-logs[aria-current]").wait_for()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        assert complaints == []


@pytest.mark.matrix
def test_what_asks_whether_that_is_meant_has_the_focus_and_gives_it_back(live_server, world, made):
    session, run = session_of(world.ana), made["bert-large"]
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(run.page_url)
        cancel = page.locator("#do-cancel")
        cancel.press("Enter")
        asks = page.get_by_role("dialog", name="Cancel bert-large?")
        expect(asks.get_by_role("button", name="Keep as it is")).to_be_focused()
        asked_by = cancel.element_handle()
        page.evaluate("htmx.trigger('#live', 'live:poll')")
        asked_by.wait_for_element_state("hidden")
        page.keyboard.press("Tab")
        expect(asks.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
        page.keyboard.press("Escape")
        expect(asks).to_be_hidden()
        expect(cancel).to_be_focused()
        assert complaints == []
