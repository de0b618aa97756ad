"""The folder of one run of the tests: its process that the developer started makes it, and all workers share it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

# Where the controller tells its workers which folder they share.
VARIABLE: Final = "PORTAL_TEST_SESSION"


def session_folder() -> Path | None:
    """None where no run of the tests has made one, as in a benchmark."""
    named = os.environ.get(VARIABLE)  # noqa: TID251
    return Path(named) if named else None
