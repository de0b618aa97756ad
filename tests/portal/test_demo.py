"""What the demo holds against a run that was interrupted, and how it counts; the demo itself is `make demo ONCE=1`."""

from __future__ import annotations

import pytest

from demo.client import DemoError
from demo.interruption import check_interruption

# `demo.scaling` is imported where it is used: scikit-learn takes seconds of each worker's collection.
KEPT = {"/c/20": 20, "/c/40": 40}


def attempt(number, resumed_from=None, lost_seconds=0):
    return {"number": number, "resumed_from": resumed_from, "lost_seconds": lost_seconds}


def test_a_resumed_run_says_what_it_lost():
    assert check_interruption([attempt(2, "/c/40"), attempt(1, lost_seconds=3)], KEPT) == 3


@pytest.mark.parametrize(
    ("attempts", "says"),
    [
        ([attempt(1)], "there are 1 attempts, not 2"),
        ([attempt(1), attempt(2, "/c/40"), attempt(3, "/c/40")], "there are 3 attempts"),
        ([attempt(1), attempt(2)], "resumed from None, which is no checkpoint"),
        ([attempt(1), attempt(2, "/elsewhere/40")], "/elsewhere/40, which is no checkpoint of attempt 1"),
        ([attempt(1), attempt(2, "/c/20")], "resumed from step 20, not from 40"),
    ],
)
def test_a_run_that_was_not_interrupted_once_or_did_not_resume_stops_the_tour(attempts, says):
    with pytest.raises(DemoError, match=says):
        check_interruption(attempts, KEPT)


def test_answers_are_counted_from_a_time_on(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 12.0)
    from demo.scaling import Answers

    answers = Answers([(1.0, 9.0), (10.5, 0.2), (11.0, 0.4), (11.5, 0.6)])
    assert answers.since(10.0) == (1.5, 0.4)
    assert answers.since(11.9) == (0.0, 0.0)


@pytest.mark.parametrize(("quantity", "value"), [("2667m", 2.667), ("3", 3.0), ("0", 0.0)])
def test_an_amount_is_read_from_its_quantity(quantity, value):
    from demo.scaling import amount

    assert amount(quantity) == value
