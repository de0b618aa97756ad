"""How values are kept in the cache: as JSON, so that reading one never runs what was written there.

Redis may be reached by more than the portal. What is read from it is data, of any shape: a reader of the
cache checks what it got before using it.
"""

from __future__ import annotations

import json
from typing import Any


class JSONSerializer:
    """Django's Redis cache calls it for every value."""

    def dumps(self, value: Any) -> str:
        """Raises TypeError for what JSON cannot say. A whole number stays one, which Redis itself counts up."""
        return json.dumps(value, separators=(",", ":"))

    def loads(self, data: bytes | str) -> Any:
        """None, as for a key that is not there, where it is no JSON."""
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
