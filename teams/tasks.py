from __future__ import annotations

import logging
from typing import Any

from foundation import clock
from foundation.http import idempotency
from foundation.tasks import task
from teams import credentials

log = logging.getLogger(__name__)


@task()
def purge_expired_rows(**_future: Any) -> None:
    """Hourly: forget idempotency keys older than 24 hours and sign-in links that open nothing any more."""
    now = clock.now()
    keys, links = idempotency.purge_expired(now=now), credentials.purge_sign_in_links(now=now)
    log.info("teams.rows_purged", extra={"idempotency_keys": keys, "sign_in_links": links})
