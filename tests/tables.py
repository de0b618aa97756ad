"""One test that goes through a table: each row is tried, and those that fail are all named.

    def test_it_is_refused(rows):
        for name, value in TABLE.items():
            with rows(name):
                assert refused(value)

For rows that cost nothing but a case each, and leave nothing behind; `undone` takes back what they do to the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from traceback import format_exception

import pytest
from django.db import transaction

Row = Callable[[object], AbstractContextManager[None]]


@contextmanager
def every_row() -> Iterator[Row]:
    """Gives `row`, in which each row of the table is tried by its name; fails at the end if any row did."""
    failed: list[str] = []
    tried = 0

    @contextmanager
    def row(name: object) -> Iterator[None]:
        nonlocal tried
        tried += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told at the end
            failed.append(f"--- {name}\n{_told(error)}")

    yield row
    assert tried, "the table has no rows"
    if failed:
        pytest.fail("\n".join([f"{len(failed)} of {tried} rows fail", *failed]), pytrace=False)


@pytest.fixture
def rows() -> Iterator[Row]:
    """`with rows(name)` around what is tried of a row."""
    with every_row() as row:
        yield row


def _told(error: BaseException) -> str:
    """What was expected; of any other exception also where it comes from."""
    told_by_itself = isinstance(error, AssertionError | pytest.fail.Exception) and str(error)
    return str(error) if told_by_itself else "".join(format_exception(error))


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is done to the database inside is taken back."""
    opened = transaction.atomic()
    # As that of the test itself: what must not be inside a transaction may be inside this one.
    opened._from_testcase = True
    with opened:
        yield
        transaction.set_rollback(True)
