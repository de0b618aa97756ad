"""`manage.py watch`: keeps the rows of pods, objects and nodes up to date with the cluster."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from foundation import clock, heartbeats

HEARTBEAT = "watcher"
WATCHER = "controller.watcher"


class NoWatcherError(Exception):
    """There is no watcher in this build."""


def run() -> None:
    """Watches until SIGTERM. Raises NoWatcherError where the controller has none."""
    if find_spec(WATCHER) is None:
        raise NoWatcherError(f"{WATCHER} does not exist")
    watcher = import_module(WATCHER)
    heartbeats.beat(process=HEARTBEAT, now=clock.now())
    watcher.run_forever()
