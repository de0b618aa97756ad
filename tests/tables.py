"""One test for a whole table: a row that fails keeps no other from being tried, and all that failed are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from traceback import format_exception

from django.db import transaction

Row = Callable[[object], AbstractContextManager[None]]


@contextmanager
def every_row() -> Iterator[Row]:
    """Gives `row`, in which each row of the table is tried by its name."""
    failed: dict[str, str] = {}

    @contextmanager
    def row(name: object) -> Iterator[None]:
        try:
            yield
        except Exception as wrong:  # noqa: BLE001
            failed[str(name)] = told(wrong)

    yield row
    rows = "\n".join(f"{name}: {said}" for name, said in failed.items())
    assert not failed, f"{len(failed)} failed\n{rows}"


def told(wrong: Exception) -> str:
    """What was expected; of any other exception also where it comes from."""
    return str(wrong) if isinstance(wrong, AssertionError) else "".join(format_exception(wrong))


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is done to the database inside is taken back."""
    opened = transaction.atomic()
    # As that of the test itself: what must not be inside a transaction may be inside this one.
    opened._from_testcase = True
    with opened:
        yield
        transaction.set_rollback(True)
