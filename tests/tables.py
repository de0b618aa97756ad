"""A table of one rule is one case: each row is tried, and all that fail are named."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., None]
SHOWN = 200


def each_row(
    names: str | Sequence[str], table: Iterable[Any], *, ids: Iterable[Any] | None = None
) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one case: for rows that cost less than a case does, and leave nothing behind.

    A fixture is set up once for all of them.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    given = [_parameters(row, one=isinstance(names, str)) for row in table]
    rows = [each.values for each in given]
    told = [str(name) for name in ids] if ids is not None else [each.id or _shown(each) for each in given]

    def over_all(test: Test) -> Test:
        @functools.wraps(test)
        def case(**fixtures: Any) -> None:
            failed = []
            for name, row in zip(told, rows, strict=True):
                try:
                    test(**fixtures, **dict(zip(wanted, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told at the end
                    failed.append(f"--- {name}\n{type(error).__name__}: {error}")
            assert rows, "the table has no rows"
            if failed:
                pytest.fail("\n".join([f"{len(failed)} of {len(rows)} rows fail", *failed]), pytrace=False)

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
