"""Periodic work on quotas."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from foundation import clock, leases
from foundation.tasks import task
from quotas.requests import return_due

logger = logging.getLogger(__name__)

LEASE_SECONDS = 30


@task(name="quotas.return_requests")
def return_requests(**_future: Any) -> None:
    """Take back quota that was given until a time that has come."""
    now = clock.now()
    holder = f"{socket.gethostname()}:{os.getpid()}"
    slot = leases.acquire(name="periodic:return-requests", holder=holder, ttl_seconds=LEASE_SECONDS, now=now)
    if slot is None:
        return
    returned = return_due(now=now)
    if returned:
        logger.info("quotas.returned", extra={"requests": returned})
