"""The first tab of an endpoint: how it is called, what serves, how it scales, and a request to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from console.pages.reading import PageReading
from inference.autoscaling.platform import engine_by
from inference.autoscaling.state import asleep_of, scaling_of, slept
from inference.models import ScaleSample
from inference.now import EndpointNow
from inference.queries import scale_samples
from pages.endpoints.analytics import calls_of_range, decisions_of, replicas_chart, trigger_of
from pages.endpoints.try_it import try_panel
from pages.ranges_asked import range_facts
from pages.time_ranges import TimeRange
from workloads.pods.pod_facts import ENDED

PODS_MAX: Final = 50
OF_THE_TRY: Final = frozenset({"try", "answer"})
"""The fragments that show nothing but the request and its answer."""


def overview_panel(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    """The revision that answers, the pods that are there, its scaler, two drawings, and the request to try."""
    target = asked.request.headers.get("HX-Target", "")
    if target in OF_THE_TRY:
        return try_panel(asked)
    return {**_figures(asked), **(try_panel(asked) if target != "figures" else {})}


def _figures(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    now = asked.own
    ports = now.serving.spec.get("ports") or {}
    live = [pod for pod in now.pods if pod.phase not in ENDED]
    facts = range_facts(asked)
    shown = facts["shown"]
    samples = scale_samples(asked.workload, begin=shown.begin, end=shown.end)
    decisions = decisions_of(samples, trigger=trigger_of(asked))
    return {
        **facts,
        **_scaler(asked, _newest(asked, samples, shown)),
        "charts": [
            replicas_chart(samples, decisions, shown, now=asked.now),
            calls_of_range(asked.workload, shown, now=asked.now),
        ],
        "ports": [(name, port) for name, port in ports.items() if port],
        "live_pods": live[:PODS_MAX],
    }


def _newest(
    asked: PageReading[EndpointNow], samples: Sequence[ScaleSample], shown: TimeRange
) -> ScaleSample | None:
    """The newest there is, also where an older time is drawn."""
    if shown.end < asked.now:
        return asked.own.endpoint.samples.first()
    return samples[-1] if samples else None


def _scaler(asked: PageReading[EndpointNow], newest: ScaleSample | None) -> dict[str, Any]:
    """How it scales, and of what sleeps how it slept."""
    now, spec = asked.own, asked.own.spec
    scaling = scaling_of(now.endpoint, spec, newest=newest, by=lambda: engine_by(asked.watches))
    if scaling.trigger is None or scaling.minimum:
        return {"scaling": scaling}
    moves = asked.past_with(asleep=asleep_of(asked.workload, now=asked.now))
    past = slept(asked.workload, spec, now=asked.now, price_book=asked.price_book, moves=moves)
    return {"scaling": scaling, "slept": past}
