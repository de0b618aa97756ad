"""A real Prometheus over samples that a test plants: `promtool` writes them into a block of its storage."""

from __future__ import annotations

import math
import shutil
import subprocess
import urllib.request
from pathlib import Path

from devcluster.prometheus.storage import NAME, Storage
from tests.ports import reserved_port
from tests.waiting import until

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")


def open_metrics(storage: Storage) -> str:
    """All samples of the storage, as `promtool tsdb create-blocks-from openmetrics` takes them."""
    lines = []
    for series in storage.select([]):
        inner = ",".join(f'{label}="{text}"' for label, text in series.labels.items() if label != NAME)
        for at, value in zip(series.times, series.values, strict=True):
            shown = "NaN" if math.isnan(value) else "+Inf" if math.isinf(value) else repr(float(value))
            lines.append(f"{series.labels[NAME]}{{{inner}}} {shown} {at / 1000:.3f}")
    return "\n".join([*lines, "# EOF"]) + "\n"


class RealPrometheus:
    """Runs until `end`. `url` is its address on loopback; `config` what it scrapes besides, and its rules."""

    def __init__(self, folder: Path, samples: str, config: str = "{}\n") -> None:
        assert PROMETHEUS is not None
        assert PROMTOOL is not None
        (folder / "samples.txt").write_text(samples)
        (folder / "config.yml").write_text(config)
        subprocess.run(
            [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{reserved_port()}"
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
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=30) as answer:  # noqa: S310 - its own loopback address
                return answer.status == 200
        except OSError:
            return False

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
