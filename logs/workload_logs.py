"""Workload logs: collected while pods run, kept after they are gone, read from the store.

The watcher's `logs.collector` follows logs; this is the API for the rest of the portal.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from cluster.client import ClusterClient
from logs import store
from logs.fetch import Fetched, LogUnavailable, fetch_pod
from logs.matching import LEVELS, LineFilter
from logs.reading import LINES_MAX, NO_ATTEMPT, Bound, LogLine, LogPage, read_lines
from logs.store import NO_CONTAINER, NOTIFY_CHANNEL, expire, expire_beyond
from workloads.models import Attempt, LogChunk, PodRecord, Workload

__all__ = [
    "LEVELS",
    "LINES_MAX",
    "NOTIFY_CHANNEL",
    "NO_ATTEMPT",
    "Bound",
    "LineFilter",
    "LogLine",
    "LogPage",
    "expire",
    "expire_beyond",
    "fetch_last",
    "read_lines",
]

logger = logging.getLogger(__name__)

# The collector of a pod that has just gone may still hold its last lines.
SETTLE = timedelta(seconds=10)
# How long after the attempt's end collection waits for a node that does not return a log.
GIVE_UP = timedelta(minutes=10)


def fetch_last(client: ClusterClient, workload: Workload, *, attempt: int, now: datetime) -> int:
    """Store what the attempt's pods have written and the store does not have; returns how many lines.

    Call it before the attempt's objects are deleted, and when it has ended; idempotent. Pods that are gone are passed
    over, and ten minutes after the attempt's end also those whose node does not answer. Raises ClusterUnavailable if a
    pod's log could not be read now: its object must be kept.
    """
    whole = LogChunk.objects.filter(workload=workload, attempt=attempt, container=NO_CONTAINER).values(
        "pod_uid"
    )
    pods = PodRecord.objects.filter(workload=workload, attempt=attempt).exclude(uid__in=whole)
    ended = Attempt.objects.filter(workload=workload, number=attempt, ended_at__lt=now - GIVE_UP)
    stored = 0
    for pod in pods.select_related("workload"):
        if pod.gone_at is None:
            fetched = _fetch(client, pod, now=now, give_up=ended.exists())
            stored += fetched.stored
            if fetched.ended and not fetched.gone:
                store.mark_stored(pod, now=now)
        elif pod.gone_at + SETTLE < now:
            store.mark_stored(pod, now=now)
    return stored


def _fetch(client: ClusterClient, pod: PodRecord, *, now: datetime, give_up: bool) -> Fetched:
    try:
        return fetch_pod(client, pod, now=now)
    except LogUnavailable:
        if not give_up:
            raise
        logger.warning("logs.given_up", exc_info=True, extra={"pod": pod.name})
        return Fetched(ended=False)
