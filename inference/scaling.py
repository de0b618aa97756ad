"""By what an endpoint scales: its spec, and what of it cannot be. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from controller.grammar import Fault
from controller.specs import Json, value_of

GPU_UTILIZATION = "gpu-utilization"
QUEUE_LATENCY = "queue-latency"
QUEUE_DEPTH = "queue-depth"
REQUESTS_PER_SECOND = "requests-per-second"
IN_FLIGHT = "in-flight"
PROMETHEUS = "prometheus"
CPU = "cpu"
CRON = "cron"
TRIGGERS = (
    GPU_UTILIZATION,
    QUEUE_LATENCY,
    QUEUE_DEPTH,
    REQUESTS_PER_SECOND,
    IN_FLIGHT,
    PROMETHEUS,
    CPU,
    CRON,
)
DEFAULT_THRESHOLD: Mapping[str, float] = {
    GPU_UTILIZATION: 70,
    QUEUE_LATENCY: 100,
    QUEUE_DEPTH: 4,
    REQUESTS_PER_SECOND: 10,
    IN_FLIGHT: 4,
    CPU: 70,
}
"""Percent, milliseconds, waiting requests a replica, requests a second and replica, requests a replica, percent."""
PERCENT = frozenset({GPU_UTILIZATION, CPU})
BY_QUERY = frozenset(TRIGGERS) - {CPU, CRON}
"""Triggers that ask Prometheus."""
OF_RUNTIME = frozenset({QUEUE_LATENCY, QUEUE_DEPTH})
AVERAGE = "value"
TOTAL = "average-value"
METRIC_TYPES = (AVERAGE, TOTAL)
"""What a query measures: one number for all replicas (an average, a percentage), or a sum that they share."""
THRESHOLD_MAX = 1_000_000_000
COOLDOWN_SECONDS_MAX = 86_400
STABILIZATION_SECONDS_MAX = 3600
QUERY_LENGTH_MAX = 4000
WINDOWS_MAX = 20

NO_SIGNAL_AT_ZERO: Mapping[str, str] = {
    GPU_UTILIZATION: "GPU utilisation is measured on the endpoint's own pods",
    QUEUE_LATENCY: "the queue whose latency is measured is inside the endpoint's own pods",
    QUEUE_DEPTH: "the queue that is counted is inside the endpoint's own pods",
    CPU: "CPU use is measured on the endpoint's own pods",
}


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end`, both five-field cron expressions in a time zone, so many replicas run."""

    start: str
    end: str
    timezone: str
    replicas: int

    @classmethod
    def from_json(cls, body: Json) -> Window:
        return cls(body["start"], body["end"], value_of(body, "timezone", "UTC"), body["replicas"])

    def to_json(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "timezone": self.timezone, "replicas": self.replicas}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    trigger: str
    threshold: float | None = None
    """None only of cron, which has none."""
    query: str | None = None
    metric_type: str | None = None
    """Of trigger prometheus; None lets the query's outermost function tell."""
    activation_threshold: float | None = None
    schedule: tuple[Window, ...] = ()
    cooldown_seconds: int = 300
    fallback_replicas: int | None = None
    """What runs while the metric cannot be read; None keeps what runs then."""
    scale_up_stabilization_seconds: int = 0
    scale_down_stabilization_seconds: int = 300

    @classmethod
    def from_json(cls, body: Json | None) -> ScalingSpec | None:
        """None where nothing is said. The body is one that `scaling_problems` finds nothing wrong with."""
        if not body or not body.get("trigger"):
            return None
        trigger = body["trigger"]
        cooldown = value_of(body, "cooldown_seconds", 300)
        return cls(
            trigger=trigger,
            threshold=value_of(body, "threshold", DEFAULT_THRESHOLD.get(trigger)),
            query=body.get("query") or None,
            metric_type=body.get("metric_type"),
            activation_threshold=body.get("activation_threshold"),
            schedule=tuple(Window.from_json(each) for each in body.get("schedule") or ()),
            cooldown_seconds=cooldown,
            fallback_replicas=body.get("fallback_replicas"),
            scale_up_stabilization_seconds=value_of(body, "scale_up_stabilization_seconds", 0),
            scale_down_stabilization_seconds=value_of(
                body, "scale_down_stabilization_seconds", min(cooldown, STABILIZATION_SECONDS_MAX)
            ),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "trigger": self.trigger,
            "threshold": self.threshold,
            "query": self.query,
            "metric_type": self.metric_type,
            "activation_threshold": self.activation_threshold,
            "schedule": [each.to_json() for each in self.schedule] or None,
            "cooldown_seconds": self.cooldown_seconds,
            "fallback_replicas": self.fallback_replicas,
            "scale_up_stabilization_seconds": self.scale_up_stabilization_seconds,
            "scale_down_stabilization_seconds": self.scale_down_stabilization_seconds,
        }


Problems = Iterator[tuple[str, Fault]]


def scaling_problems(
    body: Json | None, *, runtime: str, minimum: int, maximum: int, to_zero: bool, has_gpus: bool
) -> Problems:
    """(dotted path, fault) of what cannot be, by the request alone; each field is right by itself."""
    if maximum < minimum:
        message = f"max_replicas is {maximum}, below min_replicas, which is {minimum}."
        yield "max_replicas", Fault("below_min_replicas", message)
        return
    given = body or {}
    trigger = given.get("trigger")
    if not trigger:
        yield from _nothing_to_scale_by(given, minimum, maximum, to_zero=to_zero)
        return
    yield from _trigger_problems(given, trigger, runtime=runtime, has_gpus=has_gpus)
    if to_zero and trigger in NO_SIGNAL_AT_ZERO:
        message = (
            f"An endpoint that scales to zero cannot scale by {trigger}: {NO_SIGNAL_AT_ZERO[trigger]}, so that "
            "nothing of it exists at zero and the endpoint would never wake. Scale by in-flight, "
            "requests-per-second, cron or a prometheus query that has a value at zero."
        )
        yield "scaling.trigger", Fault("no_signal_at_zero", message)
    for index, window in enumerate(given.get("schedule") or ()):
        if window["start"].split() == window["end"].split():
            yield (
                f"scaling.schedule.{index}.end",
                Fault("no_time", "It ends when it starts, which no scaler takes."),
            )
        if window["replicas"] > maximum:
            message = f"{window['replicas']} replicas are more than max_replicas, which is {maximum}."
            yield f"scaling.schedule.{index}.replicas", Fault("above_max_replicas", message)
    fallback = given.get("fallback_replicas")
    if fallback is not None and trigger in {CPU, CRON}:
        message = f"Fallback replicas are for a metric that Prometheus gives; {trigger} needs none."
        yield "scaling.fallback_replicas", Fault("without_effect", message)
    elif fallback is not None and fallback > maximum:
        message = f"{fallback} fallback replicas are more than max_replicas, which is {maximum}."
        yield "scaling.fallback_replicas", Fault("above_max_replicas", message)


def _nothing_to_scale_by(given: Json, minimum: int, maximum: int, *, to_zero: bool) -> Problems:
    said = [name for name, value in given.items() if value not in (None, "", [], {}) and name != "trigger"]
    if maximum > minimum or to_zero or said:
        why = "scale_to_zero is set" if to_zero else f"max_replicas is {maximum} and min_replicas {minimum}"
        why = why if to_zero or maximum > minimum else f"scaling.{said[0]} is given"
        message = f"Say by what it scales, as {why}; possible are: {', '.join(TRIGGERS)}."
        yield "scaling.trigger", Fault("required", message)


def _trigger_problems(given: Json, trigger: str, *, runtime: str, has_gpus: bool) -> Problems:
    if trigger == GPU_UTILIZATION and not has_gpus:
        message = "It asks for no GPU, so there is no GPU utilisation to scale by."
        yield "scaling.trigger", Fault("no_gpu", message)
    if trigger in OF_RUNTIME and (fault := _runtime_fault(trigger, runtime)) is not None:
        yield "scaling.trigger", fault
    query, threshold = given.get("query"), given.get("threshold")
    if (trigger == PROMETHEUS) != bool(query):
        text = (
            "Give the query whose value it scales by."
            if trigger == PROMETHEUS
            else _only_of("query", PROMETHEUS)
        )
        yield "scaling.query", Fault("required" if trigger == PROMETHEUS else "without_effect", text)
    if given.get("metric_type") and trigger != PROMETHEUS:
        yield "scaling.metric_type", Fault("without_effect", _only_of("metric_type", PROMETHEUS))
    if trigger == PROMETHEUS and threshold is None:
        yield "scaling.threshold", Fault("required", "Give the value of the query that one replica may bear.")
    if trigger == CRON and threshold is not None:
        yield "scaling.threshold", Fault("without_effect", "cron has a schedule and no threshold.")
    if trigger in PERCENT and threshold is not None and threshold > 100:
        yield "scaling.threshold", Fault("out_of_range", "It is a percentage, from 1 to 100.")
    if given.get("activation_threshold") is not None and trigger not in BY_QUERY:
        text = f"{trigger} has no activation threshold."
        yield "scaling.activation_threshold", Fault("without_effect", text)
    if (trigger == CRON) != bool(given.get("schedule")):
        text = "Give at least one window." if trigger == CRON else _only_of("schedule", CRON)
        yield "scaling.schedule", Fault("required" if trigger == CRON else "without_effect", text)


def _only_of(name: str, trigger: str) -> str:
    return f"{name} belongs to the trigger {trigger}."


def _runtime_fault(trigger: str, runtime: str) -> Fault | None:
    if trigger in RUNTIME_SIGNALS.get(runtime, {}):
        return None
    knows = sorted(name for name, signals in RUNTIME_SIGNALS.items() if trigger in signals)
    message = (
        f"The portal knows no metric of runtime {runtime} for {trigger}, only of {' and '.join(knows)}. "
        "Scale by in-flight, or by trigger prometheus with a query of your own."
    )
    return Fault("no_such_metric", message)


@dataclass(frozen=True, slots=True)
class RuntimeSignal:
    """PromQL with `{}` in the place of the matchers of the endpoint's pods."""

    total: str
    count: str = ""
    """Where `total` grows by each of these, the latency is their ratio; empty for a gauge."""
    milliseconds: float = 1
    """How many milliseconds one unit of `total` is."""


RUNTIME_SIGNALS: Mapping[str, Mapping[str, RuntimeSignal]] = {
    "triton": {
        # Both are counters over all models: microseconds in the queue, and requests that have been answered.
        QUEUE_LATENCY: RuntimeSignal("nv_inference_queue_duration_us", "nv_inference_request_success", 0.001),
        QUEUE_DEPTH: RuntimeSignal("nv_inference_pending_request_count"),
    },
    "torchserve": {
        # For all its name a counter of microseconds, not a latency.
        QUEUE_LATENCY: RuntimeSignal("ts_queue_latency_microseconds", "ts_inference_requests_total", 0.001),
    },
    "vllm": {
        QUEUE_LATENCY: RuntimeSignal(
            "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count", 1000
        ),
        QUEUE_DEPTH: RuntimeSignal("vllm:num_requests_waiting"),
    },
}


def plain(value: float) -> str:
    """A number as KEDA reads it: no exponent, and no point where none is needed."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no threshold.")
    text = format(Decimal(str(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
