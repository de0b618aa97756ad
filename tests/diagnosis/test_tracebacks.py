from __future__ import annotations

import pytest

from diagnosis.tracebacks import LINES_MAX, error_line, traceback_before

BEGIN = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("ModuleNotFoundError: No module named 'torchx'", "ModuleNotFoundError: No module named 'torchx'"),
        ("[rank1]: torch.distributed.DistBackendError: NCCL", "torch.distributed.DistBackendError: NCCL"),
        ("\x1b[31mValueError: lr\x1b[0m ", "ValueError: lr"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("Error rate 0.3", ""),
        ("it said ValueError: lr", ""),
        ("FATAL: no room", ""),
    ],
)
def test_a_title_is_the_exceptions_own_line_and_nothing_else(line, title):
    assert error_line(line) == title


def test_a_long_error_is_cut_for_a_title():
    title = error_line("ValueError: " + "x" * 1000)
    assert (len(title), title[-1]) == (160, "…")


def test_a_traceback_begins_where_the_last_one_does():
    lines = [
        "hello",
        BEGIN,
        "  old",
        "KeyError: 1",
        "During handling of the above",
        BEGIN,
        "  new",
        "ValueError: 2",
    ]
    assert traceback_before(lines) == (BEGIN, "  new", "ValueError: 2")
    assert traceback_before([f"[rank0]: {BEGIN}", "[rank0]: ValueError: 2"])[0] == f"[rank0]: {BEGIN}"
    assert traceback_before(["ValueError: 2"]) == ()


def test_of_a_long_traceback_the_middle_is_left_out():
    shown = traceback_before([BEGIN, *(f"  frame {number}" for number in range(200)), "RecursionError: deep"])
    assert (len(shown), shown[0], shown[-1]) == (LINES_MAX + 1, BEGIN, "RecursionError: deep")
    assert "… 142 lines …" in shown
