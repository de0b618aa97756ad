"""`manage.py beat`: sends the periodic wake-ups of the settings' schedule.

A wake-up is a name and no code, so this process loads neither Django nor the applications.
"""

from __future__ import annotations

import argparse
import logging
import logging.config
import signal
import sys
from functools import partial
from typing import Any

import psycopg
from celery import Celery, beat
from typing_extensions import override

from foundation import clock, outages
from foundation.vitals import Vitals, vitals
from portal import settings
from portal.runtime import broker, rows
from portal.runtime import metrics_server as metrics
from portal.runtime.metrics_server import ProcessReport

HEARTBEAT = "beat"
HEARTBEAT_SECONDS = 30.0
STUCK_SECONDS = 4 * HEARTBEAT_SECONDS

logger = logging.getLogger(__name__)


class Scheduler(beat.Scheduler):
    """Keeps the schedule in memory (what a job did last stands in its own rows) and says that it is alive."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._beaten: float = 0.0
        super().__init__(*args, **kwargs)

    @override
    def tick(self, *args: Any, **kwargs: Any) -> float:
        vitals.sign()
        now = clock.now()
        if now.timestamp() - self._beaten >= HEARTBEAT_SECONDS:
            try:
                rows.beat(settings.DATABASES["default"], process=HEARTBEAT, now=now)
                self._beaten = now.timestamp()
                outages.database.answered()
            except psycopg.OperationalError as error:
                outages.database.missed(error)
            except psycopg.Error:
                logger.warning("beat.heartbeat_failed", exc_info=True)
        return min(float(super().tick(*args, **kwargs)), HEARTBEAT_SECONDS)


def main(arguments: list[str]) -> int:
    """Sends until SIGTERM or SIGINT; returns the exit status."""
    argparse.ArgumentParser(prog="manage.py beat", description="Send periodic wake-ups.").parse_args(
        arguments
    )
    logging.config.dictConfig(settings.LOGGING)
    app = Celery("portal", fixups=[], set_as_current=True)
    app.config_from_object("portal.settings", namespace="CELERY")
    metrics.start(settings.ENVIRONMENT.metrics_bind, report())
    service = beat.Service(app, scheduler_cls=Scheduler)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    service.start()
    return 0


def report(signs: Vitals = vitals) -> ProcessReport:
    """What beat reports of itself. It waits for a broker that is away when it begins. That does not count as stuck: it
    sends as soon as the broker is there, and a process that was ended meanwhile would have to be started first.
    """
    away = partial(broker.is_away, settings.REDIS_URL)
    return metrics.of_loop(signs, process=HEARTBEAT, seconds_most=STUCK_SECONDS, excused=away)


def _leave(*_: object) -> None:
    """The service sleeps between two ticks, and only an exception wakes it."""
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
