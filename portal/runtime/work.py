"""`manage.py work`: the Celery worker, its tasks in threads of this process."""

from __future__ import annotations

import warnings
from typing import Any

from celery.platforms import SecurityWarning  # type: ignore[attr-defined]
from celery.signals import worker_ready

from foundation import clock, heartbeats
from portal.celery import app

CONCURRENCY = 8
HEARTBEAT = "worker"


@worker_ready.connect
def _ready(**_: Any) -> None:
    heartbeats.beat(process=HEARTBEAT, now=clock.now())


def run(*, concurrency: int = CONCURRENCY) -> int:
    """Works until SIGTERM, which lets the tasks in hand finish; returns the exit status.

    Gossip and mingle only serve clusters of workers that talk to each other; these agree in PostgreSQL.
    """
    # Root is dangerous where messages may be pickles; here they are JSON and name ids.
    warnings.simplefilter("ignore", SecurityWarning)
    worker = app.Worker(
        pool="threads",
        concurrency=concurrency,
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
        loglevel="INFO",
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)
