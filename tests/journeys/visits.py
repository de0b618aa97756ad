"""One person in one browser window, and whatever went wrong in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Response

from tests.journeys.hands import Keyboard, Mouse
from tests.patience import expect

PATIENCE_SECONDS = 90
"""How long a journey waits for what the portal and its cluster do by themselves."""
LOOK_MS = 700
"""How long a page without a script is looked at before it is loaded again."""
ABANDONED = "net::ERR_ABORTED"


@dataclass(kw_only=True)
class Visit:
    """`live` says that pages bring themselves up to date; else the person loads them again."""

    page: Page
    hand: Mouse
    url: str
    live: bool = True
    complaints: list[str] = field(default_factory=list)
    mistakes: int = 0
    """How many forms were sent wrong on purpose and refused with 422."""

    def __post_init__(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)

    def wait_for(self, target: Locator, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Until it is to be seen: without touching the page, or, where that has no script, by loading it again."""
        if self.live:
            expect(target.first).to_be_visible(timeout=seconds * 1000)
        else:
            self.reload_until(target, seconds=seconds)

    def reload_until(self, target: Locator, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Until it is to be seen on a page that does not bring itself up to date."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                expect(target.first).to_be_visible(timeout=LOOK_MS)
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                self.page.reload()

    def faults(self) -> list[str]:
        """What a page complained of, but for the forms that were sent wrong: each is a refusal, and an error of the console."""
        refusals = [said for said in self.complaints if said.startswith("422: POST")]
        echoes = [said for said in self.complaints if said.startswith("console:") and "status of 422" in said]
        expected = [*refusals[: self.mistakes], *echoes[: self.mistakes]]
        missing = self.mistakes - len(refusals)
        unseen = [f"{missing} mistakes were not refused"] if missing > 0 else []
        return [said for said in self.complaints if said not in expected] + unseen

    def leaves_in_place(self, act: Callable[[], None]) -> None:
        """Do it, and see that the page was never loaded anew meanwhile; without a script it has to be."""
        if self.live:
            self.page.evaluate("window.untouched = true")
        act()
        assert not self.live or self.page.evaluate("window.untouched"), "the page was loaded again"

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"console: {message.text} {message.location.get('url', '')}")

    def _failed(self, request: Request) -> None:
        # What a page no longer waits for when it is left was given up, and has not failed.
        if request.failure != ABANDONED:
            self.complaints.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.request.method} {response.url}")


class Visits:
    """Windows of one journey, each of a person of its own; they share the portal and the browser."""

    def __init__(self, browser: Browser, url: str, pictures: Path) -> None:
        self._browser, self._url, self._pictures = browser, url, pictures
        self.opened: list[Visit] = []

    def open(
        self, *, width: int = 1440, height: int = 900, script: bool = True, keyboard: bool = False
    ) -> Visit:
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, java_script_enabled=script, base_url=self._url
        )
        page = context.new_page()
        hand = Keyboard(page) if keyboard else Mouse(page)
        visit = Visit(page=page, hand=hand, url=self._url, live=script)
        self.opened.append(visit)
        return visit

    def close(self, *, failed: bool) -> None:
        """Close them all, keeping a picture of each where the journey failed; fails for what a page complained of."""
        complaints: list[str] = []
        for number, visit in enumerate(self.opened, 1):
            if failed:
                visit.page.screenshot(path=self._pictures / f"window-{number}.png", full_page=True)
                print(f"window {number} at {visit.page.url}: {self._pictures}/window-{number}.png")  # noqa: T201
            complaints += [f"window {number}: {said}" for said in visit.faults()]
            visit.page.context.close()
        assert not complaints, "\n".join(complaints)
