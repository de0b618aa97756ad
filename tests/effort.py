"""How much is drawn by chance: little in `make test`, some more in `make matrix`, much in `make soak`.

`PORTAL_TEST_EFFORT` says whether it is `soak`; what is drawn otherwise is the same each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import pytest

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
    return [*range(usual), *map(_in_the_matrix, range(usual, matrix))]


def spread(rows: Iterable[Any], *, usual: int) -> list[Any]:
    """The rows for `pytest.mark.parametrize`: `make test` runs `usual` of them, evenly spaced, and `make matrix` the rest."""
    table = list(rows)
    taken = {at * len(table) // usual for at in range(usual)}
    return [row if at in taken or SOAK else _in_the_matrix(row) for at, row in enumerate(table)]


def _in_the_matrix(row: Any) -> Any:
    """A row of several arguments is a tuple, as `parametrize` has it."""
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.matrix)
