"""One test that goes through a table: each row is tried, and those that fail are all named.

    def test_it_is_refused(rows):
        for name, value in TABLE.items():
            with rows(name):
                assert refused(value)

For rows that cost nothing but a case each, and leave nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

Rows = Callable[[Any], AbstractContextManager[None]]


def failing(failed: dict[str, BaseException]) -> str:
    told = (f"--- {name}\n{type(error).__name__}: {error}" for name, error in failed.items())
    return "\n".join([f"{len(failed)} rows fail", *told])


@pytest.fixture
def rows() -> Iterator[Rows]:
    """`with rows(name)` around what is tried of a row; the test fails at its end if any row did."""
    failed: dict[str, BaseException] = {}
    tried = 0

    @contextmanager
    def row(name: Any) -> Iterator[None]:
        nonlocal tried
        tried += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told at the end
            failed[f"{tried}: {name}"] = error

    yield row
    assert tried, "the table has no rows"
    if failed:
        pytest.fail(failing(failed), pytrace=False)
