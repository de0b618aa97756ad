from __future__ import annotations

import logging
from typing import Any

from foundation import clock
from foundation.http import idempotency
from foundation.tasks import task
from teams import credentials, tickets
from teams.trail.sums import settle

log = logging.getLogger(__name__)


@task()
def purge_expired_rows(**_future: Any) -> None:
    """Hourly: forget idempotency keys older than 24 hours, sign-in links and tickets that open nothing any more, and tell
    the audit trail how often it was of what repeated itself.
    """
    now = clock.now()
    purged = {
        "idempotency_keys": idempotency.purge_expired(now=now),
        "sign_in_links": credentials.purge_sign_in_links(now=now),
        "tickets": tickets.purge(now=now),
        "audit_sums": settle(now=now),
    }
    log.info("teams.rows_purged", extra=purged)
