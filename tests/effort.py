"""How much is drawn by chance: little whenever somebody runs the tests, more before a change lands, much in `make soak`.

`PORTAL_TEST_EFFORT` says which; what is drawn little is the same each time.
"""

from __future__ import annotations

import os
from typing import Final

_LEVELS: Final = ("usual", "landing", "soak")
EFFORT: Final = os.environ.get("PORTAL_TEST_EFFORT") or "usual"  # noqa: TID251
SOAK: Final = EFFORT == "soak"

if EFFORT not in _LEVELS:
    raise ValueError(f"PORTAL_TEST_EFFORT is {EFFORT!r}, and not one of {', '.join(_LEVELS)}")


def drawn(*, usual: int, landing: int, soak: int) -> int:
    """How many of something this run of the tests draws."""
    return {"usual": usual, "landing": landing, "soak": soak}[EFFORT]
