"""The first tab of an endpoint: what serves, how it scales, and how it is called."""

from __future__ import annotations

from typing import Any, Final

from console.pages.reading import PageReading
from inference.autoscaling.platform import engine_by
from inference.autoscaling.state import asleep_of, scaling_of, slept
from inference.models import ScaleSample
from inference.now import EndpointNow
from inference.queries import scale_samples
from pages.endpoints.analytics import calls_of_range, decisions_of, replicas_chart
from pages.time_ranges import read_range
from workloads.pods.pod_facts import ENDED

PODS_MAX: Final = 50


def overview_panel(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    """The revision that answers, the pods that are there, its scaler, and the last hour in two drawings."""
    now = asked.own
    ports = now.serving.spec.get("ports") or {}
    live = [pod for pod in now.pods if pod.phase not in ENDED]
    shown = read_range({}, now=asked.now)
    samples = scale_samples(asked.workload, begin=shown.begin, end=shown.end)
    return {
        **_scaler(asked, samples[-1] if samples else None),
        "charts": [
            replicas_chart(samples, decisions_of(samples), shown, now=asked.now),
            calls_of_range(asked.workload, shown, now=asked.now),
        ],
        "ports": [(name, port) for name, port in ports.items() if port],
        "live_pods": live[:PODS_MAX],
    }


def _scaler(asked: PageReading[EndpointNow], newest: ScaleSample | None) -> dict[str, Any]:
    """How it scales, and of what sleeps how it slept."""
    now, spec = asked.own, asked.own.spec
    scaling = scaling_of(now.endpoint, spec, newest=newest, by=lambda: engine_by(asked.watches))
    if scaling.trigger is None or scaling.minimum:
        return {"scaling": scaling}
    moves = asked.past_with(asleep=asleep_of(asked.workload, now=asked.now))
    past = slept(asked.workload, spec, now=asked.now, price_book=asked.price_book, moves=moves)
    return {"scaling": scaling, "slept": past}
