"""What tells people by itself."""

from __future__ import annotations

from typing import Any, Final

from foundation import clock
from foundation.tasks import task
from notices import delivering, outbox, reporting

BATCHES_MAX: Final = 20
"""Of one task; what is left is for the next one, which beat sends every few seconds."""


@task()
def deliver(**_future: Any) -> None:
    """Send what is due."""
    for _ in range(BATCHES_MAX):
        if not delivering.deliver_due(now=clock.now()):
            return


@task()
def look_for_waits(**_future: Any) -> None:
    """Tell of those who wait long."""
    outbox.tell_of_waits(now=clock.now())


@task()
def tell_of_costs(**_future: Any) -> None:
    """Make the reports of costs that are due."""
    reporting.tell_of_costs(now=clock.now())


@task()
def forget_old(**_future: Any) -> None:
    """Delete what ended long ago."""
    delivering.forget_old(now=clock.now())
