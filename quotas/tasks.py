"""Periodic work on quotas."""

from __future__ import annotations

import logging
from typing import Any

from foundation import clock, leases
from foundation.tasks import task
from quotas.requests import return_due

logger = logging.getLogger(__name__)

LEASE_SECONDS = 30


@task(name="quotas.return_requests")
def return_requests(**_future: Any) -> None:
    """Take back quota that was given until a time that has come."""
    with leases.periodic("return-requests", seconds=LEASE_SECONDS) as ours:
        if ours and (returned := return_due(now=clock.now())):
            logger.info("quotas.returned", extra={"requests": returned})
