"""Playwright's `expect` with the patience of `tests.waiting`: its own five seconds fail on a busy machine alone."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.waiting import SECONDS

__all__ = ["expect"]

expect.set_options(timeout=SECONDS * 1000)
