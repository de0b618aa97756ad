"""What the OpenAPI document says of every operation, so that a reader needs no second page."""

from __future__ import annotations

from collections import Counter

import pytest

from teams.api.schema import SUMMARY_MAX, summary_of
from tests.openapi import document, generated, operations

WHERE = "say it in the first sentence of the method's docstring, or with extend_schema(summary=)"


def summaries() -> dict[str, str]:
    return {name: operation.get("summary", "") for name, (_, _, operation) in operations().items()}


def test_what_the_tests_read_is_what_the_code_says():
    assert document() == generated()


def test_every_operation_has_a_summary():
    missing = [name for name, summary in summaries().items() if not summary]
    assert missing == [], WHERE


def test_no_summary_is_only_the_operation_id():
    only_id = [name for name, summary in summaries().items() if summary.lower() == name.replace("_", " ")]
    assert only_id == [], WHERE


def test_no_two_operations_have_the_same_summary():
    counts = Counter(summaries().values())
    twice = {name: summary for name, summary in summaries().items() if counts[summary] > 1}
    assert twice == {}, WHERE


def test_every_summary_fits_a_line_of_a_menu():
    long = {name: summary for name, summary in summaries().items() if len(summary) > SUMMARY_MAX}
    assert long == {}, WHERE


@pytest.mark.parametrize(
    ("docstring", "summary"),
    [
        ("One price.", "One price"),
        ("Cancel: it ends. Of what has ended, at once.", "Cancel: it ends"),
        ("Make a team; platform admins alone.", "Make a team"),
        ("One line\ngoes on.\n\nAnother paragraph.", "One line goes on"),
        ("A version 1.2 of it. More.", "A version 1.2 of it"),
        (f"What fits: {'long ' * 20}, and more.", "What fits"),
        (f"What fits, and {'long ' * 20}.", "What fits"),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_sentence_or_what_fits_of_it(docstring, summary):
    assert summary_of(docstring) == summary


def test_what_kinds_of_workloads_share_is_said_of_each_kind():
    told = summaries()
    assert told["training_runs_events_list"] == "Events of one training run"
    assert told["endpoints_events_list"] == "Events of one endpoint"
