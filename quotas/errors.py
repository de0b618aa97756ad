from __future__ import annotations

from foundation.errors import Conflict


class QuotaExceeded(Conflict):
    """The claim does not fit; nothing was changed."""

    code = "quota_exceeded"
