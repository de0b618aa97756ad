"""By what an endpoint scales: its spec, and which parts of it cannot be. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from inference.triggers import CRON, PROMETHEUS, TRIGGERS, Trigger
from workloads.podspec.grammar import Fault
from workloads.podspec.specs import Json, value_of

THRESHOLD_MAX = 1_000_000_000
COOLDOWN_SECONDS_MAX = 86_400
STABILIZATION_SECONDS_MAX = 3600
QUERY_LENGTH_MAX = 4000
WINDOWS_MAX = 20


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
    """None only for cron, which has none."""
    query: str | None = None
    metric_type: str | None = None
    """For trigger prometheus; None lets the query's outermost function decide."""
    activation_threshold: float | None = None
    schedule: tuple[Window, ...] = ()
    cooldown_seconds: int = 300
    fallback_replicas: int | None = None
    """What runs while the metric cannot be read; None keeps what runs then."""
    scale_up_stabilization_seconds: int = 0
    scale_down_stabilization_seconds: int = 300

    @classmethod
    def from_json(cls, body: Json | None) -> ScalingSpec | None:
        """None for an empty body. The body is one that `scaling_problems` finds nothing wrong with."""
        if not body or not body.get("trigger"):
            return None
        trigger = body["trigger"]
        cooldown = value_of(body, "cooldown_seconds", 300)
        return cls(
            trigger=trigger,
            threshold=value_of(body, "threshold", TRIGGERS[trigger].threshold),
            query=body.get("query") or None,
            metric_type=body.get("metric_type"),
            activation_threshold=body.get("activation_threshold"),
            schedule=tuple(Window.from_json(window) for window in body.get("schedule") or ()),
            cooldown_seconds=cooldown,
            fallback_replicas=body.get("fallback_replicas"),
            scale_up_stabilization_seconds=value_of(body, "scale_up_stabilization_seconds", 0),
            scale_down_stabilization_seconds=value_of(
                body, "scale_down_stabilization_seconds", min(cooldown, STABILIZATION_SECONDS_MAX)
            ),
        )

    @property
    def row(self) -> Trigger:
        """What is known of its trigger."""
        return TRIGGERS[self.trigger]

    def to_json(self) -> dict[str, Any]:
        return {
            "trigger": self.trigger,
            "threshold": self.threshold,
            "query": self.query,
            "metric_type": self.metric_type,
            "activation_threshold": self.activation_threshold,
            "schedule": [window.to_json() for window in self.schedule] or None,
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
    values = body or {}
    trigger = values.get("trigger")
    if not trigger:
        yield from _nothing_to_scale_by(values, minimum, maximum, to_zero=to_zero)
        return
    row = TRIGGERS[trigger]
    yield from _trigger_problems(values, row, runtime=runtime, has_gpus=has_gpus)
    if to_zero and row.nothing_at_zero:
        message = (
            f"An endpoint that scales to zero cannot scale by {trigger}: {row.nothing_at_zero}, so that "
            "nothing of it exists at zero and the endpoint would never wake. Scale by in-flight, "
            "requests-per-second, cron or a prometheus query that has a value at zero."
        )
        yield "scaling.trigger", Fault("no_signal_at_zero", message)
    for index, window in enumerate(values.get("schedule") or ()):
        if window["start"].split() == window["end"].split():
            yield (
                f"scaling.schedule.{index}.end",
                Fault("no_time", "It ends when it starts, which no scaler takes."),
            )
        if window["replicas"] > maximum:
            message = f"{window['replicas']} replicas are more than max_replicas, which is {maximum}."
            yield f"scaling.schedule.{index}.replicas", Fault("above_max_replicas", message)
    fallback = values.get("fallback_replicas")
    if fallback is not None and not row.asks_prometheus:
        message = f"Fallback replicas are for a metric that Prometheus gives; {trigger} needs none."
        yield "scaling.fallback_replicas", Fault("without_effect", message)
    elif fallback is not None and fallback > maximum:
        message = f"{fallback} fallback replicas are more than max_replicas, which is {maximum}."
        yield "scaling.fallback_replicas", Fault("above_max_replicas", message)


def _nothing_to_scale_by(values: Json, minimum: int, maximum: int, *, to_zero: bool) -> Problems:
    names = [name for name, value in values.items() if value not in (None, "", [], {}) and name != "trigger"]
    if maximum > minimum or to_zero or names:
        why = "scale_to_zero is set" if to_zero else f"max_replicas is {maximum} and min_replicas {minimum}"
        why = why if to_zero or maximum > minimum else f"scaling.{names[0]} is given"
        message = f"Say by what it scales, as {why}; possible are: {', '.join(TRIGGERS)}."
        yield "scaling.trigger", Fault("required", message)


def _trigger_problems(values: Json, row: Trigger, *, runtime: str, has_gpus: bool) -> Problems:
    if row.of_gpus and not has_gpus:
        message = f"It asks for no GPU, so there is no {row.of_gpus} to scale by."
        yield "scaling.trigger", Fault("no_gpu", message)
    if row.signals and (fault := _runtime_fault(row, runtime)) is not None:
        yield "scaling.trigger", fault
    yield from _query_problems(values, row)
    threshold = values.get("threshold")
    if row.own_query and threshold is None:
        yield "scaling.threshold", Fault("required", "Give the value of the query that one replica may bear.")
    if row.scheduled and threshold is not None:
        message = f"{row.name} has a schedule and no threshold."
        yield "scaling.threshold", Fault("without_effect", message)
    if row.percentage and threshold is not None and threshold > 100:
        yield "scaling.threshold", Fault("out_of_range", "It is a percentage, from 1 to 100.")
    if values.get("activation_threshold") is not None and not row.asks_prometheus:
        text = f"{row.name} has no activation threshold."
        yield "scaling.activation_threshold", Fault("without_effect", text)
    if row.scheduled != bool(values.get("schedule")):
        text = "Give at least one window." if row.scheduled else _only_of("schedule", CRON)
        yield "scaling.schedule", Fault("required" if row.scheduled else "without_effect", text)


def _query_problems(values: Json, row: Trigger) -> Problems:
    if row.own_query != bool(values.get("query")):
        text = "Give the query whose value it scales by." if row.own_query else _only_of("query", PROMETHEUS)
        yield "scaling.query", Fault("required" if row.own_query else "without_effect", text)
    if values.get("metric_type") and not row.own_query:
        yield "scaling.metric_type", Fault("without_effect", _only_of("metric_type", PROMETHEUS))


def _only_of(name: str, trigger: str) -> str:
    return f"{name} belongs to the trigger {trigger}."


def _runtime_fault(row: Trigger, runtime: str) -> Fault | None:
    if runtime in row.signals:
        return None
    message = (
        f"The portal knows no metric of runtime {runtime} for {row.name}, only of {' and '.join(sorted(row.signals))}. "
        "Scale by in-flight, or by trigger prometheus with a query of your own."
    )
    return Fault("no_such_metric", message)
