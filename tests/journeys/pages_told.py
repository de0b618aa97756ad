"""Pages of notices, of idle GPUs with the rules of alerts, and of capacity."""

from __future__ import annotations

from typing import Self

from tests.journeys.pages import Screen
from tests.patience import expect


class FieldsScreen(Screen):
    """A form that says at the field what is wrong."""

    def fill(self, **fields: str) -> Self:
        for label, text in fields.items():
            self.hand.fill(self.field(label.replace("_", " ")), text)
        return self

    def wrong(self, label: str, message: str) -> Self:
        """What is wrong stands below the field, and what was typed in it."""
        row = self.page.locator(".field-invalid").filter(has=self.field(label))
        expect(row.get_by_text(message)).to_be_visible()
        return self


class NoticesPage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen) -> Self:
        screen.open_own("Notices")
        return cls(screen.visit).is_titled("Notices")

    def begin(self) -> SubscriptionForm:
        self.hand.press(self.page.get_by_role("link", name="New subscription"))
        return SubscriptionForm(self.visit).is_titled("New subscription")

    def open(self, name: str) -> SubscriptionPage:
        row = self.section("Subscriptions")
        self.hand.press(row.get_by_role("link", name=name, exact=True))
        return SubscriptionPage(self.visit).is_titled(name)

    def has_given_up(self, title: str) -> Self:
        self.visit.reload_until(self.section("Given up").get_by_text(title, exact=True))
        return self

    def send_again(self, title: str) -> SubscriptionPage:
        given_up = self.section("Given up")
        self.hand.press(given_up.get_by_role("button", name=f"Send again: {title}").first)
        return SubscriptionPage(self.visit).is_told("It is on its way again")


class SubscriptionForm(FieldsScreen):
    def by(self, channel: str) -> Self:
        self.hand.select(self.field("By"), channel)
        return self

    def when(self, *topics: str) -> Self:
        for topic in topics:
            self.hand.choose(self.page.get_by_role("checkbox", name=topic))
        return self

    def send(self) -> Self:
        self.hand.press(self.page.get_by_role("button", name="Subscribe", exact=True))
        return self

    def subscribe(self, name: str) -> SubscriptionPage:
        self.send()
        return SubscriptionPage(self.visit).is_titled(name)


class SubscriptionPage(Screen):
    def secret(self) -> str:
        """What signs its webhooks, which is shown this once."""
        shown = self.page.get_by_role("status", name="The secret that signs its webhooks")
        return shown.locator("code").inner_text()

    def sent(self, title: str, state: str) -> Self:
        """Wait until the list of what was sent says so."""
        row = self.section("What was sent").get_by_role("row").filter(has_text=title)
        self.visit.reload_until(row.filter(has_text=state))
        return self

    def test(self) -> Self:
        self.hand.press(self.page.get_by_role("button", name="Send a test"))
        return self.is_told("A test is on its way.")


class IdlePage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen) -> Self:
        screen.open_further("Idle GPUs")
        return cls(screen.visit).is_titled("Idle GPUs")

    def has_looked(self) -> Self:
        """Wait until the worker has looked at the cards."""
        self.visit.reload_until(self.page.locator(".page-head").get_by_text("as of"))
        return self

    def says(self, text: str) -> Self:
        expect(self.page.get_by_text(text).first).to_be_visible()
        return self

    def change_rule(self, title: str) -> AlertRuleForm:
        self.hand.press(self.page.get_by_text("The rules", exact=True))
        self.hand.press(self.page.get_by_role("link", name=f"Change the rule {title}", exact=True))
        return AlertRuleForm(self.visit).is_titled(f"Rule: {title}")

    def open_cluster(self) -> ClusterPage:
        head = self.page.locator(".page-head")
        self.hand.press(head.get_by_role("link", name="Cluster", exact=True))
        return ClusterPage(self.visit).is_titled("Cluster")


class AlertRuleForm(FieldsScreen):
    def send(self) -> Self:
        self.hand.press(self.page.get_by_role("button", name="Save", exact=True))
        return self

    def save(self) -> IdlePage:
        self.send()
        return IdlePage(self.visit).is_titled("Idle GPUs")


class ClusterPage(Screen):
    @classmethod
    def from_menu(cls, screen: Screen) -> Self:
        screen.open_from_menu("Cluster")
        return cls(screen.visit).is_titled("Cluster")

    def as_table(self) -> Self:
        self.hand.press(self.page.get_by_role("link", name="Table", exact=True))
        expect(self.section("By node")).to_be_visible()
        return self

    def asks_for_room(self, flavor: str, gpus: int) -> Self:
        form = self.page.get_by_role("form", name="Show a flavor, and find room")
        form.get_by_label("Flavor").select_option(flavor)
        form.get_by_label("GPUs or slices a pod").fill(str(gpus))
        self.hand.press(form.get_by_role("button", name="Show", exact=True))
        return self

    def says_of_room(self, text: str) -> Self:
        expect(self.page.get_by_role("status").filter(has_text=text)).to_be_visible()
        return self

    def has_flavor(self, name: str, says: str) -> Self:
        row = self.section("By flavor").get_by_role("row").filter(has_text=name)
        self.visit.reload_until(row.filter(has_text=says))
        return self

    def has_nodes_of(self, flavor: str) -> Self:
        row = self.section("By node").get_by_role("row").filter(has_text=flavor)
        expect(row.filter(has_text="ready").first).to_be_visible()
        return self
