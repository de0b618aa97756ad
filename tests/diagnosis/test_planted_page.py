"""docs/reference/diagnosis-planted.md is what the tests' tables say, and the tests that it names are there."""

from __future__ import annotations

from pathlib import Path

from diagnosis.judge import RULES
from tests.diagnosis import page

HERE = Path(__file__).parent


def test_the_page_is_written_from_the_tables():
    assert page.PAGE.read_text() == page.text(), "run `python -m tests.diagnosis.page`"


def test_each_test_that_the_page_names_is_there_and_of_a_row_that_there_is():
    of_clusters = (HERE / "test_planted_on_a_cluster.py").read_text()
    of_rows = (HERE / "test_rule_table.py").read_text()
    ids = {rule.id for rule in RULES}
    assert ids >= page.BY_ITSELF.keys() | page.ELSEWHERE.keys()
    assert page.REAL_ALONE.keys() <= page.BY_ITSELF.keys()
    assert all(f"def {name}(" in of_clusters for name in page.BY_ITSELF.values())
    assert all(f"def {name}(" in of_rows for name in page.ELSEWHERE.values())
