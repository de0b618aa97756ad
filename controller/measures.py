"""What the worker counts of its own work for Prometheus, on its own listener."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from time import perf_counter

from django.db import transaction
from prometheus_client import Counter, Histogram

ADMISSION_SECONDS = Histogram(
    "portal_admission_seconds",
    "From the queue to admission, of workloads that were admitted, by flavor and capacity type.",
    ["flavor", "capacity"],
    buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400, 604_800),
)
PASS_SECONDS = Histogram(
    "portal_pass_seconds",
    "Duration of an admission pass over a pool.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RECONCILES = Counter("portal_reconciles_total", "Reconciles of a workload that have ended well.")
RECONCILE_ERRORS = Counter(
    "portal_reconcile_errors_total",
    "Reconciles that failed, by class: unavailable (the cluster does not answer), rejected (it refuses), stale (another "
    "process took over), fault (anything else).",
    ["class"],
)
_CLASSES = {"ClusterUnavailable": "unavailable", "ClusterRejected": "rejected", "StaleWorkload": "stale"}
for _class in (*_CLASSES.values(), "fault"):
    # A series that is there from the beginning has an increase also of its first error.
    RECONCILE_ERRORS.labels(_class)


def reconcile_failed(error: BaseException) -> None:
    """Count it in its class."""
    names = (kind.__name__ for kind in type(error).__mro__)
    RECONCILE_ERRORS.labels(next((_CLASSES[name] for name in names if name in _CLASSES), "fault")).inc()


def admitted(*, flavor: str, capacity_type: str, queued_at: datetime, now: datetime) -> None:
    """Count an admission, as soon as it is committed."""
    seconds = max(0.0, (now - queued_at).total_seconds())
    transaction.on_commit(partial(ADMISSION_SECONDS.labels(flavor, capacity_type).observe, seconds))


@contextmanager
def timed_pass() -> Iterator[None]:
    """Counts how long the block takes, whatever comes of it."""
    began = perf_counter()
    try:
        yield
    finally:
        PASS_SECONDS.observe(perf_counter() - began)
