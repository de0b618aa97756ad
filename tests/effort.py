"""How much is drawn by chance: little in `make test`, some more in `make matrix`, much in `make soak`.

`PORTAL_TEST_EFFORT` says whether it is `soak`; what is drawn otherwise is the same each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import pytest
from _pytest.mark.structures import ParameterSet

_LEVELS: Final = ("usual", "soak")
_EFFORT: Final = os.environ.get("PORTAL_TEST_EFFORT") or "usual"  # noqa: TID251
SOAK: Final = _EFFORT == "soak"

if _EFFORT not in _LEVELS:
    raise ValueError(f"PORTAL_TEST_EFFORT is {_EFFORT!r}, and not one of {', '.join(_LEVELS)}")


def drawn(*, usual: int, soak: int) -> int:
    """How many of something this run of the tests draws."""
    return soak if SOAK else usual


def seeds(*, usual: int, matrix: int, soak: int) -> list[Any]:
    """Seeds for `pytest.mark.parametrize`: `make test` takes the first ones, `make matrix` the others up to `matrix`."""
    if SOAK:
        return list(range(soak))
    return [*range(usual), *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(usual, matrix))]


def spread(rows: Iterable[Any], *, usual: int) -> list[Any]:
    """A table for `pytest.mark.parametrize`: `make test` takes so many of its rows, far apart; `make matrix` the others."""
    table = list(rows)
    taken = {at * len(table) // usual for at in range(usual)}
    return [row if at in taken or SOAK else _in_the_matrix(row) for at, row in enumerate(table)]


def _in_the_matrix(row: Any) -> Any:
    if isinstance(row, ParameterSet):
        return pytest.param(*row.values, id=row.id, marks=(*row.marks, pytest.mark.matrix))
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.matrix)
