from __future__ import annotations

import pytest

from foundation.digits import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("999999999", 999_999_999)])
def test_digits_are_a_number(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", " 1", "1 ", "1_0", "1.0", "0x1", "٣", "²", "1000000000", "9" * 5000]
)
def test_nothing_else_is(text):
    assert whole_number(text) is None


def test_how_many_digits_is_told():
    assert whole_number("12", digits=2) == 12
    assert whole_number("123", digits=2) is None
