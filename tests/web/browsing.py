"""Chromium on the test's live server, signed in by a cookie; what a page complains about is kept."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, sync_playwright

from tests.web.conftest import signed_in

CHROMIUM = os.environ.get("PORTAL_TEST_CHROMIUM") or shutil.which("chromium") or ""  # noqa: TID251
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


def open_page(
    browser: Browser, url: str, session: str, *, width: int = 1440, theme: str = "light", script: bool = True
) -> tuple[Page, Complaints]:
    """A page in a context of its own, at the server's address."""
    context = browser.new_context(
        viewport={"width": width, "height": 900 if width > 600 else 740},
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
