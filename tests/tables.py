"""A table of one rule is one case: each row is tried, and all that fail are named.

`each_row` goes where `pytest.mark.parametrize` would, for rows that cost less than a case does and leave nothing behind.
`every_row` is for a test that makes its rows itself; `undone` takes back what a row did to the database.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from traceback import format_exception
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from django.db import transaction

Row = Callable[[object], AbstractContextManager[None]]
Test = Callable[..., None]
SHOWN = 200


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


def each_row(
    names: str | Sequence[str], table: Iterable[Any], *, ids: Iterable[Any] | None = None
) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one case; a fixture is set up once for all rows."""
    wanted = [names] if isinstance(names, str) else list(names)
    given = [_parameters(row, one=isinstance(names, str)) for row in table]
    rows = [each.values for each in given]
    called = [str(name) for name in ids] if ids is not None else [each.id or _shown(each) for each in given]

    def over_all(test: Test) -> Test:
        @functools.wraps(test)
        def case(**fixtures: Any) -> None:
            with every_row() as row:
                for name, values in zip(called, rows, strict=True):
                    with row(name):
                        test(**fixtures, **dict(zip(wanted, values, strict=True)))

        signature = inspect.signature(test)
        others = [each for each in signature.parameters.values() if each.name not in wanted]
        case.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return case

    return over_all


def _parameters(row: Any, *, one: bool) -> ParameterSet:
    """A row may be a `pytest.param`, as long as it has no mark: it is no case of its own."""
    if not isinstance(row, ParameterSet):
        return ParameterSet.param(row) if one else ParameterSet.param(*row)
    assert not row.marks, row
    return row


def _shown(row: ParameterSet) -> str:
    return str(row.values)[:SHOWN]


def _told(error: BaseException) -> str:
    """What was expected; of any other exception also where it comes from."""
    speaks_for_itself = isinstance(error, AssertionError | pytest.fail.Exception) and str(error)
    return str(error) if speaks_for_itself else "".join(format_exception(error))


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is done to the database inside is taken back."""
    opened = transaction.atomic()
    # As that of the test itself: what must not be inside a transaction may be inside this one.
    opened._from_testcase = True
    with opened:
        yield
        transaction.set_rollback(True)
