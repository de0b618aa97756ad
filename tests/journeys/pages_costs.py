"""The pages of costs."""

from __future__ import annotations

import re
from typing import Self

from tests.journeys.pages import MONEY, Screen
from tests.patience import expect


class CostsPage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen) -> Self:
        screen.open_from_menu("Costs")
        return cls(screen.visit).is_titled("Costs")

    def of_team(self, name: str) -> Self:
        self.hand.select(self.field("Team"), name)
        self.hand.press(self.page.get_by_role("button", name="Show", exact=True))
        return self.is_titled(f"Costs of {name}")

    def spent(self) -> float:
        """What the team spent so far, in dollars."""
        shown = self.page.locator(".facts > div").filter(has_text="Spent so far").locator("dd")
        return self._dollars(shown.inner_text())

    def dearest(self) -> tuple[str, float]:
        """The first line of the table: its name, and what it cost in dollars."""
        row = self.section("What it was spent on").locator("tbody tr").first
        return row.get_by_role("link").first.inner_text(), self._dollars(row.inner_text())

    def has_charged(self, name: str) -> Self:
        """Wait until its cost is more than nothing."""
        row = self.section("What it was spent on").get_by_role("row").filter(has_text=name)
        self.visit.reload_until(row.filter(has_text=re.compile(r"\$")))
        return self

    def ordered_by(self, column: str, order: str) -> Self:
        """Press the heading until the lines are in this order of it."""
        table = self.section("What it was spent on")
        heading = table.get_by_role("columnheader", name=column, exact=True)
        self.hand.press(heading.get_by_role("link"))
        expect(heading).to_have_attribute("aria-sort", order)
        return self

    def names(self) -> list[str]:
        return self.section("What it was spent on").locator("tbody .name").all_inner_texts()

    def by(self, title: str) -> Self:
        tabs = self.page.get_by_role("navigation", name="By", exact=True)
        self.hand.press(tabs.get_by_role("link", name=title, exact=True))
        expect(tabs.locator("[aria-current]")).to_have_text(title)
        return self

    def says(self, text: str) -> Self:
        expect(self.page.get_by_text(text).first).to_be_visible()
        return self

    def open_idle_and_lost(self) -> CapacityCostsPage:
        self.hand.press(self.page.get_by_role("link", name="Idle and lost", exact=True))
        return CapacityCostsPage(self.visit).is_titled("Idle and lost")

    def _dollars(self, text: str) -> float:
        found = MONEY.search(text)
        assert found, text
        return float(found[1].replace(",", ""))


class CapacityCostsPage(Screen):
    def tells(self, *words: str) -> Self:
        for each in words:
            expect(self.page.locator(".facts").get_by_text(each, exact=True)).to_be_visible()
        return self
