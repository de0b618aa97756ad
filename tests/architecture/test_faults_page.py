"""docs/reference/faults.md names a test for each row, and those tests are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/faults.md"
ROWS = {5, 6, 8, *range(11, 18), *range(35, 39), 40}


def test_each_row_of_the_faults_has_an_invariant_and_tests_that_are_there():
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| F\d+ \|", line)]
    assert {int(row.split("|")[1].strip()[1:]) for row in rows} == ROWS
    for row in rows:
        *_, invariant, tests = (cell.strip() for cell in row.strip("|").split("|"))
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)
        assert invariant
        assert named, row
        for file, name in named:
            assert f"def {name}(" in (ROOT / "tests/controller" / file).read_text(), f"{file}::{name}"


def test_each_test_that_is_named_after_a_row_is_on_the_page():
    page = PAGE.read_text()
    for file in ("test_watch_faults.py", "test_strangers.py"):
        for name in re.findall(
            r"^def (test_f\d+_\w+)\(", (ROOT / "tests/controller" / file).read_text(), re.MULTILINE
        ):
            assert name in page, name
