"""One visit of a page for all that is looked at in it: axe in each look, the console, how wide it is, and scripts left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from playwright.sync_api import Browser, Page

from tests.web.browsing import LOOKS, Complaints, faults, open_page, show, too_wide_between

NARROW = (360, "light")
WIDE = (1440, "light")
# Links that do not fit are scrolled to; the browser of the tests draws no bars, so that they are asked for.
SCROLL_BARS = """[...document.querySelectorAll("nav, nav *")].some(each => {
    const style = getComputedStyle(each);
    const scrolls = each.scrollWidth > each.clientWidth && ["auto", "scroll"].includes(style.overflowX);
    return scrolls && style.scrollbarWidth !== "none";
})"""
BLOCKED = "net::ERR_BLOCKED_BY_CLIENT"


@dataclass
class Sweep:
    """Pages of one person, who is signed in; `found` names every page and what is wrong with it."""

    browser: Browser
    url: str
    session: str

    def __post_init__(self) -> None:
        self.found: list[str] = []
        self.page, self.complaints = open_page(self.browser, self.url, self.session)
        # A wheel that turns is drawn sixty times a second for as long as axe looks at its page.
        self.page.emulate_media(reduced_motion="reduce")

    def visit(self, address: str, *, looks: tuple[tuple[int, str], ...] = LOOKS) -> None:
        """With its scripts."""
        self.page.goto(address)
        self.found += [*too_wide_between(self.page), *faults(self.page, *looks)]
        for look in (WIDE, NARROW):
            show(self.page, look)
            if self.page.evaluate(SCROLL_BARS):
                self.found.append(f"{address} shows a scroll bar under its tabs in {look}")

    def leave(self) -> None:
        """A page that stays open asks for what is new, which costs as much as looking at another."""
        self.page.goto("about:blank")

    def visit_without_scripts(self, address: str) -> None:
        """axe is a script itself, so it looks at a page whose own scripts are kept from loading.

        What stands in `noscript` such a page does not show, so one that has any is loaded without JavaScript, too.
        """
        bare, _ = self._bare
        bare.goto(address)
        assert not bare.evaluate("'htmx' in window"), "the scripts of the page were loaded"
        self._look_without_scripts(bare, address)
        self.found += faults(bare, NARROW)
        if bare.locator("noscript").count():
            silent, _ = self._silent
            silent.goto(address)
            self._look_without_scripts(silent, address)

    def _look_without_scripts(self, page: Page, address: str) -> None:
        if page.locator("h1").count() != 1:
            self.found.append(f"{address} has {page.locator('h1').count()} first headings without scripts")
        for look in (WIDE, NARROW):
            show(page, look)
            if page.locator("[data-copy]:visible").count():
                self.found.append(f"{address} offers to copy without scripts in {look}")

    @cached_property
    def _bare(self) -> tuple[Page, Complaints]:
        page, complaints = open_page(self.browser, self.url, self.session)
        # By the browser's own list: a route of Playwright's would switch its cache off.
        blocks = page.context.new_cdp_session(page)
        blocks.send("Network.enable")
        blocks.send("Network.setBlockedURLs", {"urls": ["*.js"]})
        return page, complaints

    @cached_property
    def _silent(self) -> tuple[Page, Complaints]:
        return open_page(self.browser, self.url, self.session, script=False)

    def end(self) -> None:
        """Nothing was found, and no page complained of anything."""
        said = list(self.complaints)
        for name in ("_bare", "_silent"):
            said += self.__dict__[name][1] if name in self.__dict__ else []
        assert (self.found, [each for each in said if BLOCKED not in each]) == ([], [])
