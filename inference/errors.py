from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from foundation.errors import Conflict


class RevisionMoved(Conflict):
    """The revision that a change was made from is not the current one any more; nothing was changed."""

    code = "changed"


class RolloutBlocked(Conflict):
    """A change for which there is no room now, with the ways that are left; nothing was changed."""

    code = "rollout_blocked"
    title = "No room for the rollout"

    def __init__(self, message: str, *, options: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(message)
        self.options = tuple(options)

    @property
    @override
    def members(self) -> Mapping[str, Any]:
        return {"options": [dict(option) for option in self.options]}
