"""Chromium on the test's live server, signed in by a cookie; what a page complains about is kept."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.conf import settings
from django.db import connections
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.waiting import result_of
from tests.web.conftest import signed_in

# The full browser also loads hidden pages for the menus of each new window, so opening a page costs five times as much.
_PROGRAMS = ("chromium-headless-shell", "chromium")
CHROMIUM = os.environ.get("PORTAL_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), "")  # noqa: TID251
# Line numbers of a log stand as close as its lines; where one points with a finger they are 24 px apart.
DENSE = ("target-size", 'class="log-n"')
T = TypeVar("T")
# Every rule of axe's own default set, and the one of WCAG 2.2 that it leaves off.
AXE_RULES = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
# A theme changes colours and nothing else: in the second one of a width only they are looked at.
COLOUR_RULES = {"resultTypes": ["violations"], "runOnly": ["color-contrast", "link-in-text-block"]}
SERIOUS = {"serious", "critical"}
LOOKS_AGAIN = 3
LOOKS = tuple((width, theme) for width in (360, 1440) for theme in ("light", "dark"))
# Each width and each theme once. Sweeps check all four pairs; other tests check states of a page that the sweeps do not reach.
TWO_LOOKS = ((360, "dark"), (1440, "light"))
WIDTHS_BETWEEN = (780, 1030, 1200)
# Other tests check the HTML that the server sends, which is all that a page without scripts has.
either_way = pytest.mark.parametrize("script", [True, pytest.param(False, marks=pytest.mark.matrix)])
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium: set PORTAL_TEST_CHROMIUM")


@cache
def _launched() -> tuple[Browser, asyncio.AbstractEventLoop]:
    """One Chromium for all tests of this process, and the loop of Playwright, which runs in their thread."""
    playwright = sync_playwright().start()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        asyncio._set_running_loop(loop)
        playwright.stop()

    atexit.register(stop)
    arguments = ["--no-sandbox", "--disable-gpu"]
    return playwright.chromium.launch(executable_path=CHROMIUM, args=arguments), loop


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without pages. Inside, no database call of the test's own: Django refuses them beside a loop."""
    browser, loop = _launched()
    asyncio._set_running_loop(loop)
    try:
        yield browser
    finally:
        for context in browser.contexts:
            context.close()
        # Playwright's loop stays where it is, and goes on with its next call.
        asyncio._set_running_loop(None)


def meanwhile(work: Callable[[], T]) -> T:
    """What it gives in another thread while a page is open: beside Playwright's loop Django asks no database."""

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return result_of(pool.submit(run))


def session_of(user) -> str:
    """A session's key, made before the browser starts."""
    return signed_in(user).cookies[settings.SESSION_COOKIE_NAME].value


class Complaints(list):
    """What the console said that it should not have."""

    def watch(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.append(str(error)))

    def _heard(self, message) -> None:
        # The tests run no `live` process: that its events cannot be had is no fault of the page.
        if (
            message.type in {"error", "warning"}
            and settings.LIVE_URL not in f"{message.text} {message.location}"
        ):
            self.append(f"{message.text} {message.location.get('url', '')}")


def show(page: Page, look: tuple[int, str]) -> None:
    """The page as it stands, in this width and theme."""
    width, theme = look
    page.set_viewport_size(screen(width))
    page.emulate_media(color_scheme=theme)


def screen(width: int) -> ViewportSize:
    return {"width": width, "height": 900 if width > 600 else 740}


def faults(page: Page, *looks: tuple[int, str], advice: bool = True, colours: bool = False) -> list[str]:
    """What axe finds, and where the page is wider than the screen, in each of these looks (default: `TWO_LOOKS`).

    Without `advice`, for pages whose frame is another's, only what it calls serious or a criterion of WCAG asks for.
    With `colours` only these, for a page that is loaded anew in the second theme of a width.
    """
    found, widths = [], set()
    for look in looks or TWO_LOOKS:
        show(page, look)
        rules = COLOUR_RULES if colours or look[0] in widths else AXE_RULES
        widths.add(look[0])
        found += [f"{look}: {each}" for each in (*findings(page, rules, advice=advice), *_too_wide(page))]
    return found


def too_wide_between(page: Page) -> list[str]:
    """Where it is wider than the screen at widths between those of the looks."""
    found = []
    for width in WIDTHS_BETWEEN:
        page.set_viewport_size(screen(width))
        found += _too_wide(page)
    return found


def _too_wide(page: Page) -> list[str]:
    size = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"{page.url} is {size[0]} wide on a screen of {size[1]}"] if size[0] > size[1] else []


def findings(page: Page, rules: dict[str, Any] = AXE_RULES, *, advice: bool = True) -> list[str]:
    """What axe finds by these rules, in the look that the page has now, once nothing is paler because it is asked for anew."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: list[str] = []
    for _ in range(LOOKS_AGAIN):
        page.locator(".htmx-request.fades").first.wait_for(state="detached")
        found = _violations(page, rules, advice=advice)
        # A part may have been asked for anew in the middle of it.
        if not any(" color-contrast: " in each for each in found):
            break
    return found


def _violations(page: Page, rules: dict[str, Any], *, advice: bool) -> list[str]:
    return [
        f"{page.url} {each['id']}: {node['html'][:160]}"
        for each in page.evaluate("rules => axe.run(rules).then(found => found.violations)", rules)
        if advice or each["impact"] in SERIOUS or any(tag.startswith("wcag") for tag in each["tags"])
        for node in each["nodes"]
        if not (each["id"] == DENSE[0] and DENSE[1] in node["html"])
    ]


def open_page(
    browser: Browser, url: str, session: str, *, width: int = 1440, theme: str = "light", script: bool = True
) -> tuple[Page, Complaints]:
    """A page in a context of its own, at the server's address."""
    context = browser.new_context(
        viewport=screen(width),
        color_scheme=theme,
        java_script_enabled=script,
        base_url=url,
    )
    if session:
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": url}])
    page = context.new_page()
    complaints = Complaints()
    complaints.watch(page)
    return page, complaints
