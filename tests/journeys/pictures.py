"""Pictures and sizes of the pages for the documentation: `make pictures`, or `python -m tests.journeys.pictures`.

A portal of its own is used as a person uses it, its pages are photographed as they then are, wide, narrow and dark, and
measured; docs/images/ and docs/reference/pages.md are written anew.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import django
from playwright.sync_api import Page

from tests.journeys import programs
from tests.journeys.pages import (
    EndpointForm,
    EndpointPage,
    HomePage,
    PrintedLinkPage,
    RunForm,
    RunPage,
    SignInPage,
)
from tests.journeys.running import ROOT, RunningPortal
from tests.journeys.visits import Visit, Visits
from tests.patience import expect

IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "reference" / "pages.md"
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
LOOKS = {"": (WIDE, "light"), "-dark": (WIDE, "dark"), "-narrow": (NARROW, "light")}
FAILS = programs.lines("python", "-u", "-c", "print('reading the configuration'); import torchx")
BEFORE = {
    "Height of the form of a run": 1948,
    "Height of the form of an endpoint": 2699,
    "Height of the settings of an endpoint": 3339,
    "First line of the log of a run": 772,
    "First line of the log of a run that failed": 1008,
    "Tabs of an endpoint": 13,
}
"""Of the pages as they were at 7fcbdd6, measured in the same way; pixels, but for the tabs."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A page that is worth one: `name` is its file's, `what` its title in the documentation."""

    name: str
    what: str
    path: str


class Album:
    """Takes the pictures, and keeps what was measured."""

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self.sizes: dict[str, int] = {}

    def take(self, visit: Visit, name: str, what: str) -> None:
        """The page that is open, in each look; it is left wide and light."""
        page = visit.page
        for suffix, (screen, theme) in LOOKS.items():
            page.set_viewport_size(screen)
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=IMAGES / f"{name}{suffix}.png")
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        self.pictures.append(Picture(name=name, what=what, path=page.url.removeprefix(visit.url)))

    def measure(self, what: str, size: float) -> None:
        self.sizes[what] = round(size)


def height(page: Page) -> float:
    """Of the whole page, in pixels."""
    return float(page.evaluate("document.documentElement.scrollHeight"))


def first_line(page: Page) -> float:
    """Where the first line of the log begins, from the top of the page."""
    line = page.get_by_role("log").locator(".log-line").first
    return float(line.evaluate("node => node.getBoundingClientRect().top + scrollY"))


def take_all(album: Album, visits: Visits, portal: RunningPortal) -> None:
    """A day of a person, and what the manager sees of it."""
    home = PrintedLinkPage.opened(visits.open(), portal.printed_link()).sign_in()
    a_run(album, home)
    a_failure(album, HomePage.from_menu(home))
    an_endpoint(album, HomePage.from_menu(home))
    what_waits(album, signed_in(visits, portal, "ana"))
    what_a_manager_sees(album, home)
    lists(album, home)


def signed_in(visits: Visits, portal: RunningPortal, username: str) -> HomePage:
    return SignInPage.opened(visits.open()).sign_in(username, portal.passwords[username])


def a_run(album: Album, home: HomePage) -> None:
    home.begin_run()
    form = RunForm.opened(home.visit).begin_with("Single GPU").for_team("Vision")
    album.measure("Height of the form of a run", height(home.page))
    form.fill(Name="train-resnet", Image=programs.IMAGE, Command=programs.COUNTS).on("a100-40gb")
    form.is_told_that_it("Starts now")
    album.take(home.visit, "run-new", "New run: what will happen, before it is sent")
    run = form.submit("train-resnet").writes("all done").comes_to("Succeeded").log_ends()
    album.measure("First line of the log of a run", first_line(home.page))
    album.take(home.visit, "run-logs", "A run that has succeeded: facts, cost, timeline, log")
    run.presses("Control+k")
    expect(home.page.get_by_role("dialog", name="Go to a page")).to_be_visible()
    home.page.keyboard.type("train")
    home.page.get_by_role("dialog").get_by_text("train-resnet").first.wait_for()
    album.take(home.visit, "palette", "Find or go to, by Ctrl K")
    home.page.keyboard.press("Escape")


def a_failure(album: Album, home: HomePage) -> None:
    home.begin_run()
    form = RunForm.opened(home.visit).for_team("Vision").on("a100-40gb")
    form.fill(Name="train-bert", Image=programs.IMAGE, Command=FAILS, GPUs="1", Retries="0")
    failed = form.is_told_that_it("Starts now").submit("train-bert").comes_to("Failed")
    failed.says("No module named 'torchx'").log_ends()
    album.measure("First line of the log of a run that failed", first_line(home.page))
    album.take(home.visit, "run-failed", "A run that failed: the exception, and one next step")


def an_endpoint(album: Album, home: HomePage) -> None:
    home.begin_endpoint()
    form = EndpointForm.opened(home.visit).for_team("Vision")
    album.measure("Height of the form of an endpoint", height(home.page))
    form.fill(Name="digits", Image=programs.IMAGE, Command=programs.SERVES).on("t4-shared")
    form.fill(GPUs="1", CPU_cores="500m", Memory="256Mi").is_told_that_it("Starts now")
    album.take(home.visit, "endpoint-new", "New endpoint")
    endpoint = form.deploy("digits").comes_to("Ready")
    endpoint.try_it(method="GET", path="/").is_answered("200")
    home.page.locator("#try").scroll_into_view_if_needed()
    album.take(home.visit, "endpoint-try-it", "An endpoint: a request is tried on its page")
    tabs = home.page.get_by_role("navigation", name="About this endpoint").get_by_role("link")
    album.measure("Tabs of an endpoint", tabs.count())
    settings(album, endpoint)


def settings(album: Album, endpoint: EndpointPage) -> None:
    endpoint.open_part("Settings & revisions", "Settings")
    endpoint.page.evaluate("scrollTo(0, 0)")
    album.measure("Height of the settings of an endpoint", height(endpoint.page))
    album.take(endpoint.visit, "endpoint-settings", "Settings of an endpoint, each part saved alone")


def what_waits(album: Album, home: HomePage) -> None:
    for name, command, gpus in (("pretrain", programs.STAYS, "2"), ("finetune", programs.ENDS, "2")):
        home.begin_run()
        form = RunForm.opened(home.visit).for_team("Speech").on("a100-40gb")
        form.fill(Name=name, Image=programs.IMAGE, Command=command, GPUs=gpus)
        run = form.submit(name)
        if name == "pretrain":
            home = HomePage.from_menu(run.comes_to("Running"))
    RunPage(home.visit, "finetune").comes_to("Queued").why_it_waits("uses 2 of its 3")
    album.take(
        home.visit, "waiting-card", "Why it waits, when it starts, and what would make it start sooner"
    )
    home.page.goto("/teams/speech/quota/")
    album.take(home.visit, "team-quota", "Quota of a team, and who holds it")
    HomePage.from_menu(home)
    album.take(home.visit, "home", "Home of a member")


def what_a_manager_sees(album: Album, home: HomePage) -> None:
    for path, name, what in (
        ("/quotas/", "quota-console", "Quotas: the grid of all teams"),
        ("/cluster/", "cluster", "Cluster: every GPU and slice, to scale"),
        ("/costs/", "costs", "Costs of the month"),
    ):
        home.page.goto(path)
        album.take(home.visit, name, what)


def lists(album: Album, home: HomePage) -> None:
    home.page.goto("/runs/")
    album.take(home.visit, "runs", "Runs of all teams that one is in")


def page_of(album: Album) -> str:
    """docs/reference/pages.md."""
    rows = [f"| {what} | {BEFORE[what]} | {size} |" for what, size in album.sizes.items()]
    parts = []
    for each in album.pictures:
        narrow, dark = (f"[{look}](../images/{each.name}-{look}.png)" for look in ("narrow", "dark"))
        parts.append(
            f"## {each.what}\n\nAlso {narrow} and {dark}.\n\n![{each.what}](../images/{each.name}.png)\n"
        )
    return "\n".join(
        [
            "# Pages",
            "",
            "Taken and measured by `make pictures` in a portal of its own, as a person uses it: 1440 x 900, and 390 x 844 where it is narrow.",
            "",
            "| pixels at 1440 x 900, and tabs | before the forms were folded | now |",
            "|---|---|---|",
            *rows,
            "",
            *parts,
        ]
    )


@contextmanager
def portal_in(folder: Path) -> Iterator[RunningPortal]:
    running = RunningPortal(folder / "data")
    try:
        running.until_started()
        yield running
    finally:
        running.stop()


def main() -> None:
    from tests.web.browsing import chromium

    with (
        tempfile.TemporaryDirectory() as folder,
        portal_in(Path(folder)) as portal,
        chromium() as browser,
    ):
        album, visits = Album(), Visits(browser, portal.url, Path(folder))
        done = False
        try:
            take_all(album, visits, portal)
            done = True
        finally:
            visits.close(failed=not done)
    PAGE.write_text(page_of(album))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")  # noqa: TID251
    django.setup()
    main()
