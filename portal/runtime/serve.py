"""`manage.py serve`: the web process, gunicorn with one worker of eight threads."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from typing_extensions import override

from portal import settings
from portal.runtime import metrics_server as metrics
from portal.runtime.guard import end_with_parent
from portal.runtime.refusals import refusals

WORKERS = 1
THREADS = 8
REQUEST_SECONDS = 60
GRACEFUL_SECONDS = 20


class WebServer(BaseApplication):  # type: ignore[misc]
    """Gunicorn's parent stays small: only the worker, after the fork, imports Django and the applications."""

    def __init__(self, *, workers: int, threads: int) -> None:
        self.workers = workers
        self.threads = threads
        # Opened once, before the workers: all of them answer on it.
        bind = settings.ENVIRONMENT.metrics_bind
        self.metrics = None if bind is None else metrics.listen(bind)
        super().__init__(prog="manage.py serve")

    @override
    def load_config(self) -> None:
        shared_memory = Path("/dev/shm")  # noqa: S108 (gunicorn's own beat file, on memory instead of disk)
        options = {
            "bind": [str(settings.ENVIRONMENT.bind)],
            "worker_class": "gthread",
            "workers": self.workers,
            "threads": self.threads,
            "timeout": REQUEST_SECONDS,
            "graceful_timeout": GRACEFUL_SECONDS,
            "worker_tmp_dir": str(shared_memory) if shared_memory.is_dir() else None,
            "logconfig_dict": _logging(),
            "control_socket_disable": True,
            "post_fork": _tie_to_parent,
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    @override
    def load(self) -> Callable[..., Any]:
        from portal.wsgi import application  # noqa: PLC0415 (after the fork, see the class)

        if self.metrics is not None:
            metrics.answer(self.metrics, metrics.ProcessReport(metrics=_exposition))
        return application


def main(arguments: list[str]) -> int:
    """Serves until SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="manage.py serve", description="Serve pages and REST on PORTAL_BIND."
    )
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--threads", type=int, default=THREADS)
    options = parser.parse_args(arguments)
    reasons = refusals(settings.ENVIRONMENT)
    if reasons:
        print(*reasons, sep="\n", file=sys.stderr)  # noqa: T201
        return 2
    WebServer(workers=options.workers, threads=options.threads).run()
    return 0


def _exposition() -> bytes:
    """What the process has counted, and the figures that are read from the database."""
    from django.db import connections  # noqa: PLC0415 (after the fork, as above)

    from foundation.http import metrics as counted  # noqa: PLC0415

    try:
        return counted.exposition()
    finally:
        # The thread that asks is gone afterwards, and must leave no connection behind.
        connections.close_all()


def _tie_to_parent(_server: Any, _worker: Any) -> None:
    if sys.platform.startswith("linux"):
        end_with_parent(signal.SIGKILL, parent=os.getppid())


def _logging() -> dict[str, Any]:
    """The settings' own logging, with gunicorn's loggers in it."""
    own = {"handlers": [], "level": "INFO", "propagate": True}
    loggers = {
        **settings.LOGGING["loggers"],
        "gunicorn.error": own,
        "gunicorn.access": {**own, "level": "WARNING"},
    }
    return {**settings.LOGGING, "loggers": loggers}
