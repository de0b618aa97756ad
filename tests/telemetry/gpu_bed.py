"""Cards whose metrics a test plants, in the small Prometheus and, where the machine has one, in the real one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from django.core.cache import cache

from devcluster.prometheus.storage import NAME, Storage
from tests.planted_metrics import planted_metrics
from tests.real_prometheus import RealPrometheus, open_metrics

EVERY_SECONDS = 30
EXPORTER = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x7k2p"}
UTIL, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
USED, FREE, TEMP = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_GPU_TEMP"
POWER, CLOCK = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK"
TENSOR, COPY, XID = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_XID_ERRORS"
USUAL = {
    UTIL: 90.0,
    USED: 20_000.0,
    FREE: 20_000.0,
    TEMP: 60.0,
    POWER: 300.0,
    CLOCK: 1400.0,
    TENSOR: 0.5,
    COPY: 30.0,
    XID: 0.0,
}


@dataclass
class Cards:
    """`plant` before `serve`: a real Prometheus reads what is there when it starts."""

    settings: object
    folder: Path
    real: bool
    how: str = "exported"
    storage: Storage = field(default_factory=lambda: Storage(keep_seconds=10**9))
    exits: ExitStack = field(default_factory=ExitStack)
    now: float = field(default_factory=time.time)

    def plant(
        self,
        pod=None,
        *,
        gpu: int = 0,
        minutes: int = 60,
        until: int = 0,
        labels: dict[str, str] | None = None,
        **values: float | Callable[[float], float],
    ) -> None:
        """The metrics of one card from `minutes` ago until `until` minutes ago. A value is a number, or a function of
        minutes ago; the exporter names no pod of a card that no pod uses.
        """
        own = {"namespace": pod.namespace, "pod": pod.name} if pod else {}
        named = (
            EXPORTER | {f"exported_{k}": v for k, v in own.items()}
            if self.how == "exported"
            else (own or EXPORTER)
        )
        card = {
            "gpu": str(gpu),
            "UUID": f"GPU-{gpu}-{pod.name if pod else 'free'}",
            "Hostname": "a100-0",
            "modelName": "NVIDIA A100",
        }
        steps = range(int((minutes - until) * 60 / EVERY_SECONDS), -1, -1)
        for name, value in (USUAL | values).items():
            if value is None:
                continue
            for step in steps:
                ago = until + step * EVERY_SECONDS / 60
                number = value(ago) if callable(value) else value
                at = int((self.now - ago * 60) * 1000) - 500
                self.storage.append({NAME: name, **named, **card, **(labels or {})}, at, float(number))

    def serve(self) -> None:
        """From now on it is the portal's Prometheus."""
        cache.clear()
        if self.real:
            server = RealPrometheus(self.folder, open_metrics(self.storage))
            self.exits.callback(server.end)
            self.settings.PROMETHEUS_URL = server.url
        else:
            url, _ = self.exits.enter_context(planted_metrics(self.storage))
            self.settings.PROMETHEUS_URL = url


def sine(low: float, high: float) -> Callable[[float], float]:
    return lambda ago: (low + high) / 2 + (high - low) / 2 * math.sin(ago)
