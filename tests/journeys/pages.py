"""The pages of the portal as a person reads them: with pages_*.py the one place that knows what they look like.

Whatever is there is found by its role, its label or its words. Each method does one thing and gives the page that
one is on afterwards, so that a journey reads as a list of steps.
"""

from __future__ import annotations

import re
from typing import Self

from playwright.sync_api import Locator

from tests.journeys.visits import Visit
from tests.patience import expect

MONEY = re.compile(r"\$(\d[\d,]*\.\d+)")


class Screen:
    """What every page has: a title, a menu, messages."""

    def __init__(self, visit: Visit) -> None:
        self.visit, self.page, self.hand = visit, visit.page, visit.hand

    def is_titled(self, title: str) -> Self:
        expect(self.page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
        return self

    def is_told(self, text: str) -> Self:
        """A message of what was done stands on the page."""
        expect(self.page.locator("#messages").get_by_text(text)).to_be_visible()
        return self

    def open_from_menu(self, name: str) -> None:
        menu = self.page.get_by_role("navigation", name="Main")
        self.hand.press(menu.get_by_role("link", name=name, exact=True))

    def open_own_menu(self) -> None:
        self.hand.press(self.page.get_by_role("banner").locator("details.menu > summary"))

    def open_further(self, name: str) -> None:
        """What stands at the foot of the menu, and where that is narrow among what is one's own."""
        foot = self.page.get_by_role("navigation", name="More")
        if foot.is_visible():
            self.hand.press(foot.get_by_role("link", name=name, exact=True))
        else:
            self.open_own(name)

    def open_own(self, name: str) -> None:
        self.open_own_menu()
        self.hand.press(self.page.get_by_role("banner").get_by_role("link", name=name, exact=True))

    def presses(self, *keys: str) -> Self:
        """Single keys, as `g`, `r`, one after the other; on a page that has come whole."""
        expect(self.page.locator("portal-keys:defined")).to_be_attached()
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def goes_by_palette(self, words: str) -> Self:
        """Ctrl K, some words, and the first of what they find."""
        palette = self.page.get_by_role("dialog", name="Go to a page")
        self.page.keyboard.press("Control+k")
        expect(palette).to_be_visible()
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")
        expect(palette).to_be_hidden()
        return self

    def choose_theme(self, name: str) -> Self:
        self.open_own_menu()
        self.hand.press(self.page.get_by_role("button", name=name, exact=True))
        expect(self.page.locator(f"html[data-theme={name.lower()}]")).to_be_attached()
        return self

    def fits_the_screen(self) -> Self:
        wide, screen = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= screen, f"{self.page.url} is {wide} wide on a screen of {screen}"
        return self

    def sign_out(self) -> SignInPage:
        self.open_own_menu()
        self.hand.press(self.page.get_by_role("button", name="Sign out"))
        return SignInPage(self.visit).is_titled("Sign in")

    def section(self, title: str) -> Locator:
        return self.page.get_by_role("region", name=title, exact=True)

    def unfolded(self, label: str) -> Locator:
        """The field with this label; the part that it stands in is opened where it is folded."""
        field = self.field(label)
        folded = self.page.locator("details.fold:not([open])").filter(has=field)
        if folded.count():
            self.hand.press(folded.locator("summary").first)
        return field

    def field(self, label: str, *, within: Locator | None = None) -> Locator:
        return (within or self.page).get_by_label(label, exact=True)


class SignInPage(Screen):
    @classmethod
    def opened(cls, visit: Visit) -> Self:
        visit.page.goto("/sign-in/")
        return cls(visit).is_titled("Sign in")

    def sign_in(self, username: str, password: str) -> HomePage:
        self.hand.fill(self.field("Username"), username)
        self.hand.fill(self.field("Password"), password)
        self.hand.press(self.page.get_by_role("button", name="Sign in", exact=True))
        return HomePage(self.visit).is_titled("Home")


class PrintedLinkPage(Screen):
    @classmethod
    def opened(cls, visit: Visit, link: str) -> Self:
        visit.page.goto(link)
        return cls(visit)

    def sign_in(self) -> HomePage:
        self.hand.press(self.page.get_by_role("button", name="Sign in as"))
        return HomePage(self.visit).is_titled("Home")


class HomePage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen) -> Self:
        screen.open_from_menu("Home")
        return cls(screen.visit).is_titled("Home")

    def begin_run(self) -> None:
        self.hand.press(self.page.get_by_role("link", name="New run").first)

    def begin_endpoint(self) -> None:
        self.hand.press(self.page.get_by_role("link", name="New endpoint").first)

    def open_run(self, name: str) -> None:
        live = self.section("My live runs")
        self.hand.press(live.get_by_role("link", name=name, exact=True))


class RunsPage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen) -> Self:
        screen.open_from_menu("Runs")
        return cls(screen.visit).is_titled("Training runs")

    def open_sweeps(self) -> SweepsPage:
        self.hand.press(self.page.locator(".page-head").get_by_role("link", name="Sweeps", exact=True))
        return SweepsPage(self.visit).is_titled("Sweeps")

    def open(self, name: str) -> RunPage:
        self.hand.press(self.section("Training runs").get_by_role("link", name=name, exact=True))
        return RunPage(self.visit, name)


class RequestForm(Screen):
    """What the forms of a run and of an endpoint have alike."""

    sends = ""

    def fill(self, **fields: str) -> Self:
        """Type into the fields with these labels, `_` for a space."""
        for name, text in fields.items():
            self.hand.fill(self.unfolded(name.replace("_", " ")), text)
        return self

    def shows(self, **fields: str) -> Self:
        """In the fields with these labels, `_` for a space."""
        for name, text in fields.items():
            expect(self.unfolded(name.replace("_", " "))).to_have_value(text)
        return self

    def for_team(self, title: str) -> Self:
        """Where there are several: a person of one team is not asked."""
        shown = self.field("Team").locator("option", has_text=title).inner_text()
        self.hand.select(self.field("Team"), shown)
        return self

    def on(self, flavor: str) -> Self:
        """Choose a GPU by its name in the table."""
        cards = self.page.get_by_role("group", name="GPU", exact=True)
        radio = cards.get_by_role("radio", name=re.compile(rf"^{re.escape(flavor)} "))
        if not self.visit.live and not radio.count():
            # Without a script the table is still of the team that was chosen before: the others are folded.
            self.hand.press(cards.locator("summary"))
        self.hand.choose(radio)
        return self

    def no_gpu(self) -> Self:
        cards = self.page.get_by_role("group", name="GPU", exact=True)
        self.hand.choose(cards.get_by_role("radio", name=re.compile("^No GPU")))
        return self

    def is_told_that_it(self, verdict: str) -> Self:
        """The preview's answer; without a script one asks for it."""
        if not self.visit.live:
            self.hand.press(self.page.get_by_role("button", name="Check", exact=True))
        shown = self.section("What will happen")
        expect(shown.get_by_text(verdict, exact=True).first).to_be_visible(timeout=30_000)
        return self

    def send(self) -> None:
        self.hand.press(self.page.get_by_role("button", name=self.sends, exact=True))


class RunForm(RequestForm):
    sends = "Submit run"

    @classmethod
    def opened(cls, visit: Visit) -> Self:
        return cls(visit).is_titled("New run")

    def begin_with(self, template: str) -> Self:
        choice = self.page.get_by_role("navigation", name="Begin with")
        self.hand.press(choice.get_by_role("link", name=re.compile(rf"^{re.escape(template)}\b")))
        expect(choice.locator("[aria-current]")).to_contain_text(template)
        return self

    def submit(self, name: str) -> RunPage:
        self.send()
        return RunPage(self.visit, name).is_told(f"{name} is submitted.")

    def sweep(self, **fields: str) -> Self:
        """Fill in the part for sweeps."""
        return self.fill(**fields)

    def submit_sweep(self, name: str) -> SweepPage:
        self.send()
        return SweepPage(self.visit, name).is_told(f"{name} is submitted.")


class EndpointForm(RequestForm):
    sends = "Deploy endpoint"

    @classmethod
    def opened(cls, visit: Visit) -> Self:
        return cls(visit).is_titled("New endpoint")

    def deploy(self, name: str) -> EndpointPage:
        self.send()
        return EndpointPage(self.visit, name).is_told(f"{name} is submitted.")


class WorkloadScreen(Screen):
    """What the pages of a run and of an endpoint have alike."""

    def __init__(self, visit: Visit, name: str) -> None:
        super().__init__(visit)
        self.name = name

    def comes_to(self, phase: str, reason: str = "") -> Self:
        """Wait until its badge says so, and beside it the reason, where one is asked for."""
        head = self.page.locator(".page-head").filter(has=self.page.get_by_text(phase, exact=True))
        self.visit.wait_for(head.filter(has_text=reason) if reason else head)
        return self

    def fact(self, name: str) -> Locator:
        facts = self.page.get_by_role("region", name="Facts")
        return facts.locator("div", has=self.page.get_by_role("term").get_by_text(name, exact=True)).last

    def further_fact(self, name: str) -> Locator:
        """One of those that stand folded away."""
        facts = self.page.get_by_role("region", name="Facts")
        self.hand.press(facts.get_by_text("More", exact=True))
        return self.fact(name)

    def cost(self) -> float:
        """What it has cost so far, in dollars, as soon as it has cost anything."""
        cost = self.fact("Cost so far")
        self.visit.wait_for(cost.filter(has_text=re.compile(r"\$\d*[1-9]|\$0\.\d*[1-9]")))
        return float(MONEY.search(cost.inner_text())[1].replace(",", ""))

    def open_tab(self, name: str) -> Locator:
        """The panel of that tab."""
        tabs = self.page.get_by_role("region", name="Details")
        link = tabs.get_by_role("navigation").get_by_role("link", name=name, exact=True)
        # Nobody presses the tab that is open; its answer would take away what is typed meanwhile.
        if link.get_attribute("aria-current") != "page":
            self.hand.press(link)
            expect(link).to_have_attribute("aria-current", "page")
        return tabs

    def open_part(self, tab: str, name: str) -> Locator:
        """The panel of a part of that tab."""
        self.open_tab(tab)
        return self.open_tab(name)

    def says(self, text: str | re.Pattern[str]) -> Self:
        """Wait until it stands above the tabs: in a line, or in the card of its cause."""
        self.visit.wait_for(self.page.locator("#live").get_by_text(text).first)
        return self

    def act(self, name: str, done: str) -> Self:
        """Press one of the buttons beside the title, and say yes."""
        head = self.page.locator(".page-head")
        self.hand.press(head.get_by_role("button", name=name, exact=True))
        dialog = self.page.get_by_role("dialog").filter(visible=True)
        self.hand.press(dialog.get_by_role("button", name=name, exact=True))
        return self.is_told(done)


class RunPage(WorkloadScreen):
    def writes(self, line: str) -> Self:
        """Wait until the log, which the page begins with, has that line."""
        self.visit.wait_for(self.page.get_by_role("log").get_by_text(line, exact=True))
        return self

    def deploy_output(self, path: str, *words: str) -> EndpointForm:
        """Take what it has written to the form of an endpoint, from the row that says so much of it."""
        row = self.open_tab("Outputs").get_by_role("row").filter(has_text=path)
        for text in words:
            expect(row).to_contain_text(text)
        self.hand.press(row.get_by_role("link", name="Deploy this"))
        return EndpointForm.opened(self.visit)

    def log_ends(self) -> Self:
        self.visit.wait_for(self.page.get_by_text("End of the log."))
        return self

    def why_it_waits(self, text: str) -> WaitingCard:
        card = self.section("Why it waits")
        self.visit.wait_for(card.get_by_text(text))
        return WaitingCard(self.visit, card)

    def clone(self) -> RunForm:
        self.hand.press(self.page.get_by_role("link", name="Clone", exact=True))
        return RunForm.opened(self.visit)


class SweepsPage(Screen):
    def begin(self) -> RunForm:
        self.hand.press(self.page.locator(".page-head").get_by_role("link", name="New sweep", exact=True))
        return RunForm.opened(self.visit)

    def open(self, name: str) -> SweepPage:
        self.hand.press(self.section("Sweeps").get_by_role("link", name=name, exact=True))
        return SweepPage(self.visit, name)


class SweepPage(WorkloadScreen):
    def member_comes_to(self, name: str, phase: str, reason: str = "") -> Self:
        """Wait until the line of that member says so."""
        link = self.page.get_by_role("link", name=name, exact=True)
        row = self.section("Members").get_by_role("row").filter(has=link)
        self.visit.wait_for(row.filter(has_text=phase).filter(has_text=reason))
        return self

    def best_is(self, name: str) -> Self:
        self.visit.wait_for(self.fact("Best so far").get_by_role("link", name=name, exact=True))
        return self

    def open_member(self, name: str) -> RunPage:
        self.hand.press(self.section("Members").get_by_role("link", name=name, exact=True))
        return RunPage(self.visit, name)


class WaitingCard(Screen):
    def __init__(self, visit: Visit, card: Locator) -> None:
        super().__init__(visit)
        self.card = card

    def take_lever(self, text: str) -> None:
        """Press what stands beside that advice."""
        lever = self.card.get_by_role("listitem").filter(has_text=text)
        self.hand.press(lever.get_by_role("link"))


class EndpointPage(WorkloadScreen):
    def try_it(self, *, method: str, path: str) -> TryPanel:
        self.open_tab("Overview")
        panel = self.section("Try it")
        self.hand.select(self.field("Method", within=panel), method)
        self.hand.fill(self.field("Path", within=panel), path)
        self.hand.press(panel.get_by_role("button", name="Send", exact=True))
        return TryPanel(self.visit)

    def make_token(self, name: str) -> str:
        """The text of a new token, which is shown once."""
        panel = self.open_part("Settings & revisions", "Access")
        self.hand.fill(self.field("Name", within=panel), name)
        self.hand.press(panel.get_by_role("button", name="Make token", exact=True))
        shown = self.page.get_by_role("status", name=f"Token {name}").locator("code")
        return shown.inner_text()

    def update(self, **fields: str) -> UpdatePanel:
        self.open_part("Settings & revisions", "Settings")
        panel = UpdatePanel(self.visit, self.name)
        for name, text in fields.items():
            self.hand.fill(self.unfolded(name.replace("_", " ")), text)
        return panel

    def revision(self, number: int, state: str) -> RevisionRow:
        """Wait until that revision is in that state."""
        panel = self.open_part("Settings & revisions", "Revisions")
        row = panel.get_by_role("row").filter(
            has=self.page.get_by_role("cell", name=re.compile(rf"^{number}\b"))
        )
        self.visit.wait_for(row.filter(has_text=state))
        return RevisionRow(self.visit, self.name, number, row)


class TryPanel(Screen):
    def is_answered(self, status: str) -> Self:
        answer = self.page.locator("#answer")
        expect(answer.get_by_text(status, exact=True)).to_be_visible(timeout=30_000)
        return self

    def body(self) -> str:
        return self.page.get_by_role("region", name="Body of the answer").inner_text()

    def curl(self) -> str:
        """The command line that the page writes down for what was sent."""
        return self.page.get_by_role("region", name="cURL").inner_text()


class UpdatePanel(Screen):
    def __init__(self, visit: Visit, name: str) -> None:
        super().__init__(visit)
        self.name = name

    def show_what_changes(self) -> Self:
        self.hand.press(self.page.get_by_role("button", name="Show what it changes"))
        return self

    def changes(self, field: str, before: str, after: str) -> Self:
        effects = self.section("What this changes")
        row = effects.get_by_role("row").filter(has_text=field)
        expect(row).to_contain_text(before)
        expect(row).to_contain_text(after)
        return self

    def roll_out(self) -> EndpointPage:
        self.hand.press(self.page.get_by_role("button", name="Roll out a new revision"))
        return EndpointPage(self.visit, self.name)


class RevisionRow(Screen):
    def __init__(self, visit: Visit, name: str, number: int, row: Locator) -> None:
        super().__init__(visit)
        self.name, self.number, self.row = name, number, row

    def differs(self, field: str, before: str, after: str) -> Self:
        """The comparison with the one before it, which the newest shows at once."""
        expect(self.row.get_by_text(f"1 field: {field}")).to_be_visible()
        expect(self.row.get_by_role("definition").filter(has_text=before)).to_contain_text(after)
        return self

    def roll_back_to_it(self) -> EndpointPage:
        self.hand.press(self.row.get_by_role("button", name=f"Roll back to revision {self.number}"))
        return EndpointPage(self.visit, self.name)
