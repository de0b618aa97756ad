"""The pages of a team and of those who set quotas."""

from __future__ import annotations

from datetime import date
from typing import Self

from playwright.sync_api import Locator

from tests.journeys.pages import Screen
from tests.journeys.visits import Visit
from tests.patience import expect


class TeamPage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen, title: str) -> Self:
        """The menu leads there at once where somebody is in one team alone."""
        screen.open_from_menu("Teams")
        return cls(screen.visit).is_titled(title)

    def add_member(self, username: str, role: str) -> Self:
        members = self.section("Members")
        self.hand.press(members.get_by_text("Add a member"))
        self.hand.fill(self.field("Username", within=members), username)
        self.hand.select(self.field("Role", within=members), role)
        self.hand.press(members.get_by_role("button", name="Add", exact=True))
        return self

    def has_member(self, username: str, role: str) -> Self:
        chosen = self.field(f"Role of {username}").locator("option:checked")
        expect(chosen).to_have_text(role)
        return self

    def change_role(self, username: str, role: str) -> Self:
        self.hand.select(self.field(f"Role of {username}"), role)
        self.hand.press(self.page.get_by_role("button", name=f"Change the role of {username}"))
        return self

    def remove_member(self, username: str) -> Self:
        self.hand.press(self.page.get_by_role("button", name=f"Remove {username}"))
        return self

    def has_no_member(self, username: str) -> Self:
        expect(self.section("Members").get_by_text(username, exact=True)).to_have_count(0)
        return self

    def write_secret(self, name: str, key: str, value: str) -> Self:
        secrets = self.section("Secrets")
        self.hand.press(secrets.get_by_text("Write a secret"))
        for label, text in (("Name", name), ("Key 1", key), ("Value 1", value)):
            self.hand.fill(self.field(label, within=secrets).filter(visible=True), text)
        self.hand.press(secrets.get_by_role("button", name="Write secret"))
        return self

    def has_secret(self, name: str, key: str) -> Self:
        row = self._secret(name)
        expect(row.get_by_text(key, exact=True)).to_be_visible()
        return self

    def delete_secret(self, name: str) -> Self:
        self.hand.press(self._secret(name).get_by_role("button", name=f"Delete {name}"))
        return self

    def shows_nowhere(self, text: str) -> Self:
        expect(self.page.locator("body")).not_to_contain_text(text)
        return self

    def open_volumes(self) -> VolumesPage:
        self.hand.press(self.page.get_by_role("link", name="Volumes", exact=True))
        return VolumesPage(self.visit)

    def _secret(self, name: str) -> Locator:
        return self.section("Secrets").get_by_role("row").filter(has_text=name)


class VolumesPage(Screen):
    def make(self, name: str, size: str) -> Self:
        self.hand.fill(self.field("Name"), name)
        self.hand.fill(self.field("Size"), size)
        self.hand.press(self.page.get_by_role("button", name="Make volume"))
        return self

    def has_volume(self, name: str, size: str) -> Self:
        row = self.page.get_by_role("row").filter(has_text=name)
        expect(row).to_contain_text(size)
        return self


class TeamQuotaPage(Screen):
    """Where a member asks for more, and a quota manager gives it for a time."""

    @classmethod
    def from_grid(cls, screen: Screen, team: str) -> Self:
        screen.hand.press(screen.page.get_by_role("rowheader").get_by_role("link", name=team, exact=True))
        return cls.opened(screen.visit, team)

    def give(self, pool: str, *, units: str, until: date, reason: str) -> QuotaRequestPage:
        self.hand.press(self.page.get_by_role("link", name="Give more for a time"))
        self.hand.select(self.field("What"), pool)
        self.hand.fill(self.field("Units more"), units)
        self.hand.fill(self.field("Until"), until.isoformat())
        self.hand.fill(self.field("Why"), reason)
        self.hand.press(self.page.get_by_role("button", name="See what it would do"))
        return QuotaRequestPage(self.visit)

    @classmethod
    def opened(cls, visit: Visit, team: str) -> Self:
        return cls(visit).is_titled(f"Quota of {team}")

    def is_filled_in_with(self, units: str) -> Self:
        expect(self.field("Units more")).to_have_value(units)
        return self

    def ask(self, *, until: date, reason: str) -> Self:
        self.hand.fill(self.field("Until"), until.isoformat())
        self.hand.fill(self.field("Why"), reason)
        self.hand.press(self.page.get_by_role("button", name="Ask", exact=True))
        return self.is_told("Asked.")

    def shows_request(self, reason: str, *, state: str) -> Self:
        row = self.section("Requests for more").get_by_role("row").filter(has_text=reason)
        expect(row).to_contain_text(state)
        return self


class QuotaRequestPage(Screen):
    """What was asked for, what it would do, and the answer."""

    def says(self, text: str) -> Self:
        expect(self.page.get_by_text(text)).to_be_visible()
        return self

    def says_of_its_quota(self, text: str) -> Self:
        expect(self.section("What it would do")).to_contain_text(text)
        return self

    def approve_it(self, comment: str) -> Self:
        self.hand.fill(self.page.get_by_role("textbox", name="What the team reads"), comment)
        self.hand.press(self.page.get_by_role("button", name="Approve", exact=True))
        return self


class QuotaRequestsPage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen) -> Self:
        screen.open_from_menu("Quotas")
        screen.hand.press(screen.page.get_by_role("link", name="Requests"))
        return cls(screen.visit)

    def approve(self, what: str, *, reason: str, comment: str) -> Self:
        request = self.page.get_by_role("region", name=what).filter(has_text=reason)
        self.hand.press(request.get_by_role("link", name="See what it would do"))
        QuotaRequestPage(self.visit).approve_it(comment)
        return self
