"""How much is drawn by chance: little whenever the tests run, much in `make soak`.

`PORTAL_TEST_EFFORT` says which; what is drawn little is the same each time.
"""

from __future__ import annotations

import os
from typing import Final

_LEVELS: Final = ("usual", "soak")
_EFFORT: Final = os.environ.get("PORTAL_TEST_EFFORT") or "usual"  # noqa: TID251
SOAK: Final = _EFFORT == "soak"

if _EFFORT not in _LEVELS:
    raise ValueError(f"PORTAL_TEST_EFFORT is {_EFFORT!r}, and not one of {', '.join(_LEVELS)}")


def drawn(*, usual: int, soak: int) -> int:
    """How many of something this run of the tests draws."""
    return soak if SOAK else usual
