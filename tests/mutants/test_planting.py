"""The yardstick is true: each fault of the list is in the code as it is now, and planting changes that alone."""

from __future__ import annotations

import ast
import difflib

import pytest

from tests.mutants.faults import GROUPS, ROOT, LostError, draw, listed, located, with_new_groups
from tests.mutants.sites import planted, sites
from tests.mutants.template_sites import template_sites

SOURCE = '''
def pay(cents, *, late=False):
    """Ünïcode before a fault on the same line must not move it."""
    log.info("paid")
    if late and cents > 3:
        return "ä" * 2, cents + 1
    record(cents)
    if not late:
        cents = cents - 1
    return cents


class Till:
    drawers = Many(least=1)

    def shut(self):
        return all(each is None for each in self.drawers)
'''


def test_every_kind_of_fault_is_found():
    assert [(site.symbol, site.kind, site.before, site.after) for site in sites(SOURCE)] == [
        ("pay", "removed guard", "late and cents > 3", "False"),
        ("pay", "operator", "late and cents > 3", "(late or cents > 3)"),
        ("pay", "comparison", "cents > 3", "(cents >= 3)"),
        ("pay", "constant", "3", "(4)"),
        ("pay", "operator", '"ä" * 2', "('ä' // 2)"),
        ("pay", "constant", "2", "(3)"),
        ("pay", "operator", "cents + 1", "(cents - 1)"),
        ("pay", "constant", "1", "(2)"),
        ("pay", "removed call", "record(cents)", "pass"),
        ("pay", "condition", "not late", "(not (not late))"),
        ("pay", "operator", "not late", "(late)"),
        ("pay", "operator", "cents - 1", "(cents + 1)"),
        ("pay", "constant", "1", "(2)"),
        ("Till", "constant", "1", "(2)"),
        ("Till.shut", "comparison", "each is None", "(each is not None)"),
    ]


def test_equal_faults_of_a_symbol_are_told_apart():
    assert [site.occurrence for site in sites(SOURCE) if (site.symbol, site.before) == ("pay", "1")] == [0, 1]


@pytest.mark.parametrize("site", sites(SOURCE), ids=lambda site: f"{site.kind}-{site.before}")
def test_planting_changes_the_line_that_it_says(site):
    changed = planted(SOURCE, site)
    ast.parse(changed)
    marks = [line for line in difflib.ndiff(SOURCE.splitlines(), changed.splitlines()) if line[0] in "+-"]
    assert len(marks) == 2
    assert marks[0].count(site.before) >= 1
    assert site.after in marks[1]


@pytest.mark.matrix
def test_the_same_seed_draws_the_same_faults():
    assert draw(7) == draw(7) != draw(8)
    assert len(draw()) == sum(count for count, _ in GROUPS.values()) == 60


def test_a_list_that_has_all_groups_stays_as_it_is():
    assert with_new_groups(listed()) == listed()


def test_a_condition_and_a_value_of_a_template_can_be_planted_and_a_comment_cannot():
    source = "{# {% if no %} #}\n<b>ü {% if late and cents > 3 %}{{ name }}{% endif %}</b>\n{{ text|safe }}"
    found = template_sites("till.html", source)
    assert [(site.kind, site.before, site.after) for site in found] == [
        ("removed if", "late and cents > 3", "True"),
        ("unescaped value", "name", "name|safe"),
    ]
    assert [planted(source, site).splitlines()[1] for site in found] == [
        "<b>ü {% if True %}{{ name }}{% endif %}</b>",
        "<b>ü {% if late and cents > 3 %}{{ name|safe }}{% endif %}</b>",
    ]


@pytest.mark.matrix
def test_each_fault_of_the_list_is_in_the_code():
    lost = []
    for fault in listed():
        try:
            module, site = located(fault)
        except LostError as error:
            lost.append(str(error))
            continue
        changed = planted((ROOT / module).read_text(), site)
        assert changed != (ROOT / module).read_text()
        if module.endswith(".py"):
            ast.parse(changed)
    assert lost == []
