"""Tables, pagers, empty states and rows of forms are components (`templates/cotton`): no page writes its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from typing_extensions import override

from tests.architecture.sources import ROOT

TEMPLATES = ROOT / "templates"
COMPONENTS = "cotton/"
TABLE, PAGER, EMPTY, ROW = "c-table", "c-pager", "c-empty-state", "c-field"
SEARCH_BAR = "The labels of a search bar are for the ears alone: there is no room for rows."
DOCUMENT = "A document of its own, which has to come when what components need does not work."
EXCEPTIONS = {
    ("403_csrf.html", EMPTY): DOCUMENT,
    ("errors/bare.html", EMPTY): DOCUMENT,
    (
        "console/flavors.html",
        ROW,
    ): "The labels are the cards of the radio buttons, which are one row together.",
    ("notices/report.html", TABLE): "A mail has no style sheet, and no page around it.",
    ("console/gpu_row.html", ROW): "One of those labels.",
    ("console/list_filters.html", ROW): SEARCH_BAR,
    ("portal/quota_console.html", ROW): SEARCH_BAR,
    ("portal/audit.html", ROW): SEARCH_BAR,
    ("console/panel_logs.html", ROW): "The log is chosen in a bar above it, in one line.",
    ("console/log_tools.html", ROW): "How a log looks is chosen in a menu, in lines of one word.",
    (
        "console/panel_logs.html",
        EMPTY,
    ): "A list of choices holds choices alone, so the one choice says it.",
    (
        "portal/quota_changes_table.html",
        EMPTY,
    ): "One change among others that has no limits to list, within a cell.",
}
# What the templates' own tags say: removed, as their quotes and signs are none of the page's.
COMMANDS = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
COMMAND = re.compile(r"\{%\s*(\w+).*?%\}", re.DOTALL)


class Tags(HTMLParser):
    """The tags of a template with their attributes and lines; what `{% if %}` adds counts as being there."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: list[tuple[int, str, dict[str, str]]] = []
        self.feed(COMMANDS.sub(lambda command: " " + "\n" * command[0].count("\n"), source))
        self.close()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((self.getpos()[0], tag, {name: value or "" for name, value in attrs}))


def pages() -> dict[str, str]:
    """The templates that are no component: path and text."""
    found = {
        path.relative_to(TEMPLATES).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(TEMPLATES.rglob("*.html"))
    }
    return {name: source for name, source in found.items() if not name.startswith(COMPONENTS)}


def repeated(source: str) -> Iterator[tuple[int, str]]:
    """The line and the component of whatever a template writes instead of it."""
    for line, tag, attributes in Tags(source).found:
        classes = attributes.get("class", "").split()
        if tag in {"table", "thead", "tbody", "tfoot", "caption"}:
            yield line, TABLE
        if "pager" in classes or attributes.get("aria-label") == "Pages":
            yield line, PAGER
        if "empty" in classes:
            yield line, EMPTY
        if tag == "label" or not {"field", "field-invalid"}.isdisjoint(classes):
            yield line, ROW
    for at, branch in branches_without_rows(source):
        if f"<{EMPTY}" not in branch:
            yield source.count("\n", 0, at) + 1, EMPTY


def branches_without_rows(source: str) -> Iterator[tuple[int, str]]:
    """Place and text of what is shown instead of rows: after `{% empty %}`, and beside a table in an `{% if %}`."""
    open_blocks: list[list[tuple[str, int]]] = []
    for command in COMMAND.finditer(source):
        name = command[1]
        if name in {"if", "for"}:
            open_blocks.append([(name, command.end())])
        elif name in {"elif", "else", "empty"}:
            open_blocks[-1].append((name, command.end()))
        elif name in {"endif", "endfor"}:
            yield from _without_rows(source, [*open_blocks.pop(), (name, command.end())])


def _without_rows(source: str, marks: list[tuple[str, int]]) -> Iterator[tuple[int, str]]:
    branches = [(name, begin, source[begin:end]) for (name, begin), (_, end) in pairwise(marks)]
    # A branch of whole sections is more than rows, and so is what stands beside it.
    shows_table = any(f"<{TABLE}" in text and "<section" not in text for _, _, text in branches)
    for name, begin, text in branches:
        if name == "empty" or (shows_table and name in {"elif", "else"} and f"<{TABLE}" not in text):
            yield begin, text


def test_no_page_writes_what_a_component_writes():
    found = {
        f"{name}:{line} needs <{component}>"
        for name, source in pages().items()
        for line, component in repeated(source)
        if (name, component) not in EXCEPTIONS
    }
    assert found == set()


def test_every_exception_is_needed():
    found = {(name, component) for name, source in pages().items() for _, component in repeated(source)}
    assert set(EXCEPTIONS) - found == set()


@pytest.mark.parametrize("component", [TABLE, PAGER, EMPTY, ROW])
def test_every_component_is_used_by_several_pages(component):
    assert (TEMPLATES / COMPONENTS / f"{component[2:].replace('-', '_')}.html").is_file()
    assert sum(f"<{component}" in source for source in pages().values()) > 1


@pytest.mark.parametrize(
    ("source", "component"),
    [
        ('<table class="mini"><tr><td>1</td></tr></table>', TABLE),
        ('<nav class="row pager"></nav>', PAGER),
        ('<nav aria-label="Pages"></nav>', PAGER),
        ('<section class="card{% if not rows %} empty{% endif %}"></section>', EMPTY),
        ("{% for each in rows %}<li>{{ each }}</li>{% empty %}<li>None.</li>{% endfor %}", EMPTY),
        ("{% if rows %}<c-table></c-table>{% else %}<p>None.</p>{% endif %}", EMPTY),
        ("{% if rows %}<c-table></c-table>{% elif x %}None.{% else %}<c-empty-state />{% endif %}", EMPTY),
        ('<div class="{% if x == "y" %}w-3 {% endif %}field"></div>', ROW),
        ('<p><label for="x">X</label><input id="x"></p>', ROW),
    ],
)
def test_what_a_page_writes_itself_is_noticed(source, component):
    assert [found for _, found in repeated(f"<main>\n{source}\n</main>")][:1] == [component]


@pytest.mark.parametrize(
    "source",
    [
        '<c-table class="mini"><c-slot name="head"><th scope="col">X</th></c-slot></c-table>',
        '<c-pager :previous="newer" :next="older" />',
        "{% if rows %}<c-table></c-table>{% else %}<c-empty-state>None.</c-empty-state>{% endif %}",
        "{% if a %}{% if b %}x{% else %}y{% endif %}<c-table></c-table>{% endif %}",
        '<c-field id="x" name="x" label="X" error="{{ errors|join:" " }}" />',
        '<p class="field-error">{{ said }}</p>',
        "{% if a %}<section><c-table></c-table></section>{% else %}<section>Wrong.</section>{% endif %}",
    ],
)
def test_what_components_write_is_none_of_the_page(source):
    assert list(repeated(source)) == []


def test_every_row_of_a_form_names_its_control():
    """Without a bound field the component writes the control, with the id that its label points at."""
    found = [
        f"{name}:{line}"
        for name, source in pages().items()
        for line, tag, attributes in Tags(source).found
        if tag == ROW and ":field" not in attributes
        if "id" not in attributes or ("name" not in attributes and attributes.get("control") != "fieldset")
    ]
    assert found == []


def test_what_a_row_hands_on_to_its_control_is_escaped():
    """Cotton writes the attributes that a component does not know as they are: a bound one would not be escaped."""
    declared = re.search(
        r"<c-vars (.*?)/>", (TEMPLATES / COMPONENTS / "field.html").read_text(encoding="utf-8")
    )
    assert declared
    known = set(re.findall(r'([\w-]+)="', declared[1]))
    found = [
        f"{name}:{line} {each}"
        for name, source in pages().items()
        for line, tag, attributes in Tags(source).found
        for each in attributes
        if tag == ROW and each.startswith(":") and each[1:] not in known
    ]
    assert found == []


def test_every_head_of_a_table_says_what_it_heads():
    found = [
        f"{name}:{line}"
        for name, source in pages().items()
        for line, tag, attributes in Tags(source).found
        if tag == "th" and attributes.get("scope") not in {"col", "row"}
    ]
    assert found == []
