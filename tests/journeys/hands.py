"""How a person reaches what a page offers: with a mouse, or with the keyboard alone."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

STOPS_MAX = 300
"""More stops than any page has; a walk that is longer goes in circles."""
WHERE = """node => {
  if (!node.isConnected) return "gone";
  const active = document.activeElement;
  if (node === active) return "here";
  if (!active || active === document.body) return "after";
  return node.compareDocumentPosition(active) & Node.DOCUMENT_POSITION_FOLLOWING ? "before" : "after";
}"""


class Mouse:
    """Points at things."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, target: Locator) -> None:
        """Use a link, a button or a summary."""
        target.click()

    def fill(self, target: Locator, text: str) -> None:
        """Type over what stands there."""
        target.fill(text)

    def choose(self, target: Locator) -> None:
        """Take one of several radio buttons."""
        target.check()

    def select(self, target: Locator, option: str) -> None:
        """Take an option of a list by its words."""
        target.select_option(label=option)


class Keyboard(Mouse):
    """Walks with Tab, as somebody does who has no mouse; what cannot be reached so fails."""

    def press(self, target: Locator) -> None:
        self._reach(target)
        self.page.keyboard.press("Enter")

    def fill(self, target: Locator, text: str) -> None:
        self._reach(target)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(text)

    def choose(self, target: Locator) -> None:
        """A group of radio buttons is one stop; arrows move inside it."""
        group = target.page.locator(f"input[name='{target.get_attribute('name')}']")
        for _ in range(group.count()):
            if target.is_checked():
                return
            inside = group.evaluate_all("nodes => nodes.includes(document.activeElement)")
            if not inside:
                stop = group.and_(target.page.locator(":checked"))
                self._reach(stop if stop.count() else group.first)
            self.page.keyboard.press("ArrowDown")
        assert target.is_checked(), "the arrows do not lead there"

    def select(self, target: Locator, option: str) -> None:
        self._reach(target)
        self.page.keyboard.type(option)
        chosen = target.evaluate("node => node.selectedOptions[0].label")
        assert chosen == option, f"typing {option} chose {chosen}"

    def _reach(self, target: Locator) -> None:
        target.wait_for()
        # Looked up once, as that takes longer than a step; anew where its part of the page came anew meanwhile.
        node = target.element_handle()
        for _ in range(STOPS_MAX):
            where = node.evaluate(WHERE)
            if where == "here":
                return
            if where == "gone":
                node = target.element_handle()
            else:
                self.page.keyboard.press("Tab" if where == "after" else "Shift+Tab")
        raise AssertionError(f"the keyboard does not reach {target}")
