"""The codes of problem documents that the tests have seen of each operation, from the file that the settings name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

Codes = Mapping[str, Mapping[str, list[str]]]


@cache
def codes_of(path: Path) -> Codes:
    """Codes by the id of their operation and by status."""
    codes: Codes = json.loads(path.read_text(encoding="utf-8"))
    return codes
