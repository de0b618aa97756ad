"""The same samples in devcluster's storage and in a real Prometheus."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request

from devcluster.prometheus.api import PrometheusApi
from devcluster.prometheus.storage import NAME, Storage
from tests.planted_metrics import TOKEN
from tests.real_prometheus import PROMETHEUS, PROMTOOL, RealPrometheus, open_metrics

NOW = 1_700_000_000
EVERY = 15


def _series():
    """Labels and the value of each sample, the oldest first; the last is 4 s before NOW."""
    steps = range(40)
    pods = ("a", "b", "c")
    for number, pod in enumerate(pods, 1):
        own = {"pod": pod, "namespace": "team-vision", "zone": "x" if number < 3 else "y"}
        # A counter that begins anew once.
        yield {NAME: "requests_total", "code": "200", **own}, [float((7 * number * s) % 800) for s in steps]
        yield {NAME: "requests_total", "code": "500", **own}, [float(number * (s // 3)) for s in steps]
        yield {NAME: "gpu_util", **own}, [50 + 40 * math.sin(s / 3 + number) for s in steps]
        yield {NAME: "in_flight", **own}, [float((s * number) % 5) for s in steps]
        for bound, share in (("0.1", 0.2), ("0.5", 0.7), ("1", 0.9), ("+Inf", 1.0)):
            yield (
                {NAME: "latency_seconds_bucket", "le": bound, **own},
                [math.floor(share * number * 10 * s) for s in steps],
            )
        yield {NAME: "capacity", "pod": pod}, [100.0 * number for _ in steps]
    yield {NAME: "odd"}, [math.nan if s % 2 else math.inf for s in steps]
    yield {NAME: "info", "zone": "x", "kind": "spot"}, [1.0 for _ in steps]


def _times(count):
    return [NOW * 1000 - 4000 - (count - 1 - index) * EVERY * 1000 for index in range(count)]


def storage() -> Storage:
    made = Storage(keep_seconds=86_400)
    for labels, values in _series():
        for at, value in zip(_times(len(values)), values, strict=True):
            made.append(labels, at, value)
    return made


def ask(url: str, path: str, *, token: str = TOKEN, **parameters: str):
    """Status and JSON of an answer; a real Prometheus looks at no token."""
    address = f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


__all__ = [
    "NOW",
    "PROMETHEUS",
    "PROMTOOL",
    "PrometheusApi",
    "RealPrometheus",
    "ask",
    "open_metrics",
    "storage",
]
