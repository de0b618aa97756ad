"""Scraping: the given URLs, pods that ask for it by annotation, and the simulated exporter of the cards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from devcluster.kinds import POD
from devcluster.objects import Obj, annotations_of, labels_of, name_of, namespace_of, phase_of
from devcluster.store import Store

from .storage import NAME, STALE, FullError, Storage

log = logging.getLogger("devcluster")
TIMEOUT_SECONDS = 3.0
BODY_BYTES_MAX = 8 << 20
SAMPLES_MAX = 5000
"""The most samples of one target; more are a failure of the scrape, as with Prometheus' `sample_limit`."""
ANNOTATION = "prometheus.io/"

Key = frozenset[tuple[str, str]]
Sample = tuple[dict[str, str], float, int | None]
"""Labels, with the name as `__name__`, value, and the time in milliseconds where the target gives one."""


@dataclass(frozen=True, slots=True)
class Target:
    """One URL, or samples that are made here, and the labels that they get."""

    url: str
    labels: tuple[tuple[str, str], ...]
    samples: Callable[[], Iterable[Sample]] | None = None


def given_targets(urls: list[str]) -> list[Target]:
    """Those of the command line: their job is `portal`."""
    return [Target(url, (("instance", urlsplit(url).netloc or url), ("job", "portal"))) for url in urls]


def pod_targets(store: Store) -> Iterator[Target]:
    """Pods with `prometheus.io/scrape: "true"`, `prometheus.io/port` and perhaps `prometheus.io/path`."""
    for pod in store.list(POD):
        wanted, address = annotations_of(pod), pod.get("status", {}).get("podIP")
        port, path = wanted.get(f"{ANNOTATION}port", ""), wanted.get(f"{ANNOTATION}path", "/metrics")
        asked = wanted.get(f"{ANNOTATION}scrape") == "true" and port.isdigit()
        if asked and address and phase_of(pod) == "Running":
            yield Target(f"http://{address}:{port}/{path.lstrip('/')}", _pod_labels(pod, f"{address}:{port}"))


def _pod_labels(pod: Obj, instance: str) -> tuple[tuple[str, str], ...]:
    """The pod's own, written as Prometheus can, then where it is."""
    labels = {re.sub(r"[^a-zA-Z0-9_]", "_", key): text for key, text in labels_of(pod).items()}
    labels |= {
        "job": "kubernetes-pods", "instance": instance, "namespace": namespace_of(pod), "pod": name_of(pod),
        "node": pod["spec"].get("nodeName", ""),
    }  # fmt: skip
    return tuple(sorted(labels.items()))


def parse(text: str) -> Iterator[Sample]:
    """The samples in a text of Prometheus' text format 0.0.4. ValueError for a line that does not follow it."""
    # Without the types: the parser would rename counters that do not end in `_total`.
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for family in text_string_to_metric_families("\n".join(lines)):
        for sample in family.samples:
            at = None if sample.timestamp is None else round(float(sample.timestamp) * 1000)
            yield {NAME: sample.name, **sample.labels}, sample.value, at


class Scraper:
    """Asks all targets at an interval, side by side."""

    def __init__(self, storage: Storage, targets: Callable[[], list[Target]], interval: float) -> None:
        self._storage, self._targets, self._interval = storage, targets, interval
        self._seen: dict[Target, dict[Key, dict[str, str]]] = {}
        self._http: aiohttp.ClientSession | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._http is not None:
            await self._http.close()

    async def _run(self) -> None:
        self._http = aiohttp.ClientSession()
        while True:
            began = time.monotonic()
            try:
                await self._round(self._http)
            except Exception:
                log.exception("the targets could not be scraped")
            await asyncio.sleep(max(0.0, began + self._interval - time.monotonic()))

    async def _round(self, http: aiohttp.ClientSession) -> None:
        targets = self._targets()
        for gone in self._seen.keys() - set(targets):
            self._end(gone, {}, int(time.time() * 1000))
            self._seen.pop(gone)
        await asyncio.gather(*(self._scrape(http, target) for target in targets))
        self._storage.forget(int(time.time() * 1000))

    async def _scrape(self, http: aiohttp.ClientSession, target: Target) -> None:
        at, is_up = int(time.time() * 1000), True
        series: dict[Key, dict[str, str]] = {}
        try:
            for sample_labels, value, stamp in await self._samples(http, target):
                labels = _merged(sample_labels, target)
                self._storage.append(labels, at if stamp is None else stamp, value)
                if stamp is None:
                    series[frozenset(labels.items())] = labels
        except (aiohttp.ClientError, OSError, TimeoutError, FullError, ValueError) as problem:
            # `up` shows it as well: a target that is just starting is no news.
            log.debug("could not scrape %s: %r", target.url, problem)
            is_up = False
        self._end(target, series, at)
        self._seen[target] = series
        with contextlib.suppress(FullError):
            self._storage.append({NAME: "up", **dict(target.labels)}, at, float(is_up))

    async def _samples(self, http: aiohttp.ClientSession, target: Target) -> list[Sample]:
        made = parse(await self._text(http, target.url)) if target.samples is None else target.samples()
        samples = list(made)
        if len(samples) > SAMPLES_MAX:
            raise ValueError(f"{len(samples)} samples, at most {SAMPLES_MAX} are taken")
        return samples

    async def _text(self, http: aiohttp.ClientSession, url: str) -> str:
        if url.startswith("unix://"):
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(url[7:])) as local:
                return await self._text(local, "http://localhost/metrics")
        limit = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        headers = {"Accept": "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"}
        async with http.get(url, headers=headers, timeout=limit) as answer:
            if answer.status != 200:
                raise ValueError(f"server returned HTTP status {answer.status} {answer.reason}")
            body = b""
            async for chunk in answer.content.iter_chunked(1 << 16):
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise ValueError(f"the body exceeds {BODY_BYTES_MAX} bytes")
            return body.decode()

    def _end(self, target: Target, series: dict[Key, dict[str, str]], at: int) -> None:
        """Mark the series that this target had at the last scrape and has no longer."""
        for key, labels in self._seen.get(target, {}).items():
            if key not in series:
                self._storage.append(labels, at, STALE)


def _merged(labels: dict[str, str], target: Target) -> dict[str, str]:
    """The target's labels win; the sample's own are kept as `exported_…`."""
    own = dict(target.labels)
    kept = {f"exported_{label}" if label in own else label: text for label, text in labels.items()}
    return kept | own
