"""By what an endpoint can scale: one row for each trigger, which forms, checks, scalers and documents read. Pure.

A new trigger that Prometheus answers is one row here, and its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from inference import promql
from inference.enforced_query import held
from inference.promql import AVERAGE, TOTAL, RuntimeSignal, Signal, Subject

GPU_UTILIZATION = "gpu-utilization"
QUEUE_LATENCY = "queue-latency"
QUEUE_DEPTH = "queue-depth"
REQUESTS_PER_SECOND = "requests-per-second"
IN_FLIGHT = "in-flight"
PROMETHEUS = "prometheus"
CPU = "cpu"
CRON = "cron"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What scales an endpoint. Where neither `query`, `signals` nor `own_query` is given, Prometheus is not asked."""

    name: str
    label: str
    """What the form says behind the name: the unit of the threshold."""
    scaler: str = "prometheus"
    """The type of KEDA's trigger."""
    query: Callable[[Subject], Signal] | None = None
    signals: Mapping[str, RuntimeSignal] = field(default_factory=dict)
    """By runtime, where the server itself measures it; other runtimes cannot scale by it."""
    own_query: bool = False
    """Whether the request brings the query, and says what one replica may bear."""
    threshold: float | None = None
    """Where the request gives none, in the unit of the label."""
    percentage: bool = False
    scheduled: bool = False
    """Whether it goes by windows of time and has no threshold."""
    of_gpus: str = ""
    """What it measures of GPUs, which an endpoint without any does not have."""
    of_whole_card: bool = False
    """Whether a pod with a part of a card is measured with its neighbours on it."""
    nothing_at_zero: str = ""
    """Why nothing of it exists while no replica runs; such an endpoint would never wake."""
    by_autoscaler: bool = False
    """Whether the cluster's own autoscaler can do it without KEDA."""

    @property
    def asks_prometheus(self) -> bool:
        return self.own_query or self.query is not None or bool(self.signals)

    def signal(self, subject: Subject, *, query: str | None, metric_type: str | None) -> Signal:
        """What Prometheus is asked; the two are the request's. ValueError for a runtime that does not measure it."""
        if self.own_query and query is not None:
            return Signal(held(query, subject.border), metric_type or promql.guessed_type(query))
        if self.query is not None:
            return self.query(subject)
        if subject.runtime in self.signals:
            return promql.of_runtime(self.signals[subject.runtime], subject)
        raise ValueError(f"{self.name} asks Prometheus nothing for runtime {subject.runtime}.")


_ROWS = (
    Trigger(
        name=GPU_UTILIZATION,
        label="percent",
        query=lambda subject: Signal(promql.gpu_utilization(subject), AVERAGE),
        threshold=70,
        percentage=True,
        of_gpus="GPU utilisation",
        of_whole_card=True,
        nothing_at_zero="GPU utilisation is measured on the endpoint's own pods",
    ),
    Trigger(
        name=QUEUE_LATENCY,
        label="milliseconds in the server's queue",
        signals={
            # Counters over all models: microseconds in the queue, and requests that have been answered.
            "triton": RuntimeSignal("nv_inference_queue_duration_us", "nv_inference_request_success", 0.001),
            # For all its name a counter of microseconds, not a latency.
            "torchserve": RuntimeSignal(
                "ts_queue_latency_microseconds", "ts_inference_requests_total", 0.001
            ),
            "vllm": RuntimeSignal(
                "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count", 1000
            ),
        },
        threshold=100,
        nothing_at_zero="the queue whose latency is measured is inside the endpoint's own pods",
    ),
    Trigger(
        name=QUEUE_DEPTH,
        label="requests in the server's queue",
        signals={
            "triton": RuntimeSignal("nv_inference_pending_request_count"),
            "vllm": RuntimeSignal("vllm:num_requests_waiting"),
        },
        threshold=4,
        nothing_at_zero="the queue that is counted is inside the endpoint's own pods",
    ),
    Trigger(
        name=REQUESTS_PER_SECOND,
        label="of a replica",
        query=lambda subject: Signal(promql.requests_per_second(subject.endpoint_id), TOTAL),
        threshold=10,
    ),
    Trigger(
        name=IN_FLIGHT,
        label="requests that a replica works on",
        query=lambda subject: Signal(promql.in_flight(subject.endpoint_id), TOTAL),
        threshold=4,
    ),
    Trigger(name=PROMETHEUS, label="a query of your own", own_query=True),
    Trigger(
        name=CPU,
        label="percent of what it asks for",
        scaler="cpu",
        threshold=70,
        percentage=True,
        nothing_at_zero="CPU use is measured on the endpoint's own pods",
        by_autoscaler=True,
    ),
    Trigger(name=CRON, label="by the clock (in the further fields)", scaler="cron", scheduled=True),
)
TRIGGERS: Mapping[str, Trigger] = MappingProxyType({row.name: row for row in _ROWS})
