"""Processes report that they are alive."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from foundation.models import Heartbeat
from foundation.vitals import vitals


def beat(*, process: str, now: datetime, detail: Mapping[str, Any] | None = None) -> None:
    """Record that `process` (such as `worker:host:pid`) is alive at `now`. That it came here is a sign of life."""
    vitals.sign()
    Heartbeat.objects.bulk_create(
        [Heartbeat(process=process, at=now, detail=dict(detail or {}))],
        update_conflicts=True,
        unique_fields=["process"],
        update_fields=["at", "detail"],
    )
