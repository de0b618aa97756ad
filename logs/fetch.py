"""Fetches what a pod's containers have written so far into the store: at the start, when polling, and at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cluster.client import ClusterClient
from cluster.errors import ClusterRejected, ClusterUnavailable, ObjectNotFound
from cluster.kinds import POD, ObjectRef
from cluster.pod_logs import PodLog
from logs import store
from logs.lines import LineSplitter
from logs.store import CHUNK_BYTES_MAX, ContainerLog
from workloads.models import PodRecord
from workloads.pods.pod_facts import ENDED

logger = logging.getLogger(__name__)


class LogUnavailable(ClusterUnavailable):
    """The API server knows the pod, but its node does not return the log: it is lost, or slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of fetching a pod: whether its log is complete, and which containers are writing now."""

    ended: bool
    gone: bool = False
    running: tuple[str, ...] = ()
    stored: int = 0


@dataclass(frozen=True, slots=True)
class _Container:
    name: str
    running: bool
    started: bool
    restarted: bool


def fetch_pod(client: ClusterClient, pod: PodRecord, *, now: datetime) -> Fetched:
    """Store what this pod's containers have written and the store does not have.

    A pod that is not there (or whose name another pod has now) has ended. Raises ClusterUnavailable (LogUnavailable if
    only the pod's node does not answer); lines stored until then are kept.
    """
    try:
        manifest = client.get(ObjectRef(POD.api_version, POD.kind, pod.namespace, pod.name))
    except ObjectNotFound:
        return Fetched(ended=True, gone=True)
    if manifest["metadata"]["uid"] != pod.uid:
        return Fetched(ended=True, gone=True)
    ended = manifest.get("status", {}).get("phase") in ENDED
    containers = list(_containers(manifest))
    stored = 0
    for container in containers:
        if container.started:
            stored += _fetch_container(client, pod, container, now=now)
    running = () if ended else tuple(container.name for container in containers if container.running)
    return Fetched(ended=ended, running=running, stored=stored)


def _containers(manifest: Mapping[str, Any]) -> Iterator[_Container]:
    status = manifest.get("status", {})
    for field in ("initContainerStatuses", "containerStatuses"):
        for item in status.get(field) or ():
            state, last = item.get("state") or {}, item.get("lastState") or {}
            running = "running" in state
            yield _Container(
                name=item["name"],
                running=running,
                started=running or "terminated" in state or "terminated" in last,
                restarted=bool(item.get("restartCount")),
            )


def _fetch_container(client: ClusterClient, pod: PodRecord, container: _Container, *, now: datetime) -> int:
    stored = 0
    log = ContainerLog(store.source_of(pod, container=container.name))
    for previous in (True, False) if container.restarted else (False,):
        log.load()
        final = previous or not container.running
        source = PodLog(client, namespace=pod.namespace, pod=pod.name, container=container.name)
        pieces = source.pieces(since=log.since, follow=False, previous=previous)
        try:
            for lines in _groups(pieces, final=final):
                stored += log.append(lines, now=now)
        except ClusterUnavailable as error:
            raise LogUnavailable(f"{pod}/{container.name}: {error}", retry_after=error.retry_after) from error
        except (ObjectNotFound, ClusterRejected) as refusal:
            # Deleted between the two requests, or its runtime keeps no log of it.
            logger.info(
                "logs.not_served", extra={"pod": pod.name, "error": str(refusal), "previous": previous}
            )
    return stored


def _groups(pieces: Iterator[bytes], *, final: bool) -> Iterator[list[bytes]]:
    """Batches of lines of about a chunk; the unfinished last line only if no more of it can come."""
    splitter = LineSplitter()
    lines: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        lines += splitter.feed(piece)
        if size >= CHUNK_BYTES_MAX:
            yield lines
            lines, size = [], 0
    if final:
        lines += splitter.finish()
    if lines:
        yield lines
