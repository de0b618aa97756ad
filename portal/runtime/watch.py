"""`manage.py watch`: keeps the rows of pods, objects and nodes up to date with the cluster."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from foundation.vitals import vitals
from portal.runtime import metrics_server as metrics
from portal.settings.env import Bind

HEARTBEAT = "watcher"
WATCHER = "controller.watch.watcher"
# It beats every ten seconds, and an attempt to reach a database that hangs ends after thirty.
STUCK_SECONDS = 120.0


class NoWatcherError(Exception):
    """There is no watcher in this build."""


def run(*, metrics_bind: Bind | None = None) -> None:
    """Watches until SIGTERM. Raises NoWatcherError where the controller has none."""
    if find_spec(WATCHER) is None:
        raise NoWatcherError(f"{WATCHER} does not exist")
    watcher = import_module(WATCHER)
    metrics.start(metrics_bind, metrics.of_loop(vitals, process=HEARTBEAT, seconds_most=STUCK_SECONDS))
    watcher.run_forever()
