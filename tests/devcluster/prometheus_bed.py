"""The same samples in devcluster's storage and in a real Prometheus."""

from __future__ import annotations

import json
import math
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from devcluster.prometheus.api import PrometheusApi
from devcluster.prometheus.storage import NAME, Storage
from tests.waiting import until

NOW = 1_700_000_000
EVERY = 15
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")


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


def open_metrics() -> str:
    """As promtool reads it."""
    lines = []
    for labels, values in _series():
        inner = ",".join(f'{label}="{text}"' for label, text in labels.items() if label != NAME)
        for at, value in zip(_times(len(values)), values, strict=True):
            shown = "NaN" if math.isnan(value) else "+Inf" if math.isinf(value) else repr(float(value))
            lines.append(f"{labels[NAME]}{{{inner}}} {shown} {at / 1000:.3f}")
    return "\n".join([*lines, "# EOF"]) + "\n"


class Real:
    """Prometheus itself, over a block of the samples."""

    def __init__(self, folder: Path) -> None:
        assert PROMETHEUS is not None
        assert PROMTOOL is not None
        (folder / "samples.txt").write_text(open_metrics())
        (folder / "config.yml").write_text("{}\n")
        subprocess.run(
            [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        command = [PROMETHEUS, "--config.file=config.yml", "--storage.tsdb.path=data"]
        command += [
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        self._process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._ready)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:  # noqa: S310 - its own loopback address
                return answer.status == 200
        except OSError:
            return False

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


def ask(url: str, path: str, **parameters: str):
    """Status and JSON of an answer."""
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{query}", timeout=30) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


__all__ = ["NOW", "PROMETHEUS", "PROMTOOL", "PrometheusApi", "Real", "ask", "storage"]
