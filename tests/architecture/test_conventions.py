"""The table of conventions counts what it lists, and names a test of everything that it calls met."""

from __future__ import annotations

import re
from collections import Counter

from tests.architecture.sources import ROOT

PAGE = ROOT / "docs/reference/conventions.md"
ROW = re.compile(r"^\| ([^|]+) \| (met|part|missing) \| ([^|]+) \| ?([^|]*?) ?\|$", re.MULTILINE)
SUM = re.compile(r"Of (\d+) conventions (\d+) are met, (\d+) in part, (\d+) missing\.")


def test_the_sum_is_that_of_the_rows():
    page = PAGE.read_text(encoding="utf-8")
    rows, said = ROW.findall(page), SUM.search(page)
    counted = Counter(state for _, state, _, _ in rows)
    assert said
    assert [int(number) for number in said.groups()] == [
        len(rows),
        counted["met"],
        counted["part"],
        counted["missing"],
    ]
    assert page.count("\n| ") == len(rows) + 1


def test_whatever_is_met_has_a_test():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    found = [
        name
        for name, state, _, test in rows
        if (state == "met" and not (ROOT / test.strip("`")).is_file()) or (state == "met" and not test)
    ]
    assert found == []
