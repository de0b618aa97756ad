"""`manage.py work`: the Celery worker, its tasks in threads of this process, apart for each queue."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from celery.platforms import SecurityWarning  # type: ignore[attr-defined]
from celery.signals import task_postrun, task_prerun, worker_ready
from django.conf import settings
from prometheus_client import Counter

from foundation import clock, heartbeats
from foundation.vitals import Vitals, vitals
from portal.celery import app
from portal.runtime import broker
from portal.runtime import metrics_server as metrics
from portal.runtime.lanes import MAIN, Lanes, ReadOthers
from portal.runtime.metrics_server import ProcessReport
from portal.settings import queues
from portal.settings.env import Bind

CONCURRENCY = queues.THREADS[MAIN]
HEARTBEAT = "worker"
# Sweeps come every two seconds, to one worker of all: a worker that got none for so long receives nothing any more.
STUCK_SECONDS = 600.0
TASKS = Counter("portal_tasks_total", "Background tasks that have ended.", ["task", "state"])


@worker_ready.connect
def _ready(**_: Any) -> None:
    heartbeats.beat(process=HEARTBEAT, now=clock.now())


@task_prerun.connect
def _taken(**_: Any) -> None:
    vitals.sign()


@task_postrun.connect
def _ended(task: Any = None, state: str | None = None, **_: Any) -> None:
    TASKS.labels(getattr(task, "name", ""), state or "").inc()


def report(signs: Vitals = vitals) -> ProcessReport:
    """What the worker reports of itself; while the broker is away it is not stuck, because nothing can come."""
    away = partial(broker.is_away, settings.REDIS_URL)
    return metrics.of_loop(signs, process=HEARTBEAT, seconds_most=STUCK_SECONDS, excused=away)


def run(*, concurrency: int = CONCURRENCY, metrics_bind: Bind | None = None) -> int:
    """Works until SIGTERM, which lets the tasks in hand finish; returns the exit status.

    Gossip and mingle only serve clusters of workers that talk to each other; these agree in PostgreSQL.
    """
    # Root is dangerous where messages may be pickles; here they are JSON and name ids.
    warnings.simplefilter("ignore", SecurityWarning)
    metrics.start(metrics_bind, report())
    app.steps["consumer"].add(ReadOthers)
    worker = app.Worker(
        pool=Lanes,
        queues=[MAIN],
        concurrency=concurrency,
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
        loglevel="INFO",
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)
