"""What a ScaledObject and its HorizontalPodAutoscaler say, as facts and sentences. Pure: raw JSON in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller import podstatus
from controller.observation import ScalerFacts
from controller.podstatus import Json
from inference import scalers
from inference.scalers import NO_SCALER, PAUSED, PAUSED_REPLICAS, SCALER_ANNOTATION

SCALED_OBJECT = "ScaledObject"
AUTOSCALER = "HorizontalPodAutoscaler"
_NO_FAILURE = frozenset({"ScalingDisabled", ""})
"""Why an autoscaler may be inactive without anything being wrong: its target has no replicas."""

FAILURES_TOLD = 3
"""One failed reading is no news: the next one follows within seconds."""


_MADE = {scalers.KEDA: SCALED_OBJECT, scalers.AUTOSCALER: AUTOSCALER}


def lacks_scaler(deployment: Json, companions: Sequence[Json]) -> bool:
    """Whether the scaler that was made with the Deployment is not there any more."""
    kind = _MADE.get(_annotation(deployment))
    return kind is not None and all(each.get("kind") != kind for each in companions)


def scaler_of(deployment: Json, companions: Sequence[Json]) -> ScalerFacts | None:
    """What its scaler says; of one that is missing, that it is. None where nothing is to scale it."""
    if _annotation(deployment) == NO_SCALER:
        return ScalerFacts(
            failure="Nothing scales it: what it scales by needs KEDA, which the cluster does not offer any more. Have KEDA "
            "offered again, which is noticed, or scale by cpu.",
            unscaled=True,
        )
    if lacks_scaler(deployment, companions):
        return ScalerFacts(failure="Its scaler is not in the cluster; it is made again.")
    return read_scaler(companions)


def _annotation(deployment: Json) -> str:
    return str((deployment["metadata"].get("annotations") or {}).get(SCALER_ANNOTATION) or "")


def read_scaler(companions: Sequence[Json]) -> ScalerFacts | None:
    """The scaler's own words about itself; None where there is no scaler."""
    scaled = next((each for each in companions if each.get("kind") == SCALED_OBJECT), None)
    autoscaler = next((each for each in companions if each.get("kind") == AUTOSCALER), None)
    if scaled is None and autoscaler is None:
        return None
    spec = (autoscaler or {}).get("spec") or {}
    status = (autoscaler or {}).get("status") or {}
    keda = (scaled or {}).get("spec") or {}
    metric, value, target = _metric(spec, status)
    return ScalerFacts(
        minimum=keda.get("minReplicaCount", spec.get("minReplicas")),
        maximum=keda.get("maxReplicaCount", spec.get("maxReplicas")),
        wanted=status.get("desiredReplicas"),
        metric=metric,
        value=value,
        target=target,
        decision=_decision(scaled, autoscaler),
        failure=_failure(scaled, autoscaler),
        falls_back=scaled is not None and _is_true(scaled, "Fallback"),
        paused=scaled is not None and _is_held(scaled),
    )


def _is_true(item: Json, kind: str) -> bool:
    return podstatus.condition(item, kind).get("status") == "True"


def _is_held(scaled: Json) -> bool:
    """By its annotations: the condition comes later, and is set for one-way pauses too."""
    annotations = (scaled.get("metadata") or {}).get("annotations") or {}
    return PAUSED in annotations or PAUSED_REPLICAS in annotations


def _decision(scaled: Json | None, autoscaler: Json | None) -> str:
    """Why it holds this number of replicas."""
    if scaled is not None and podstatus.condition(scaled, "Active").get("status") == "False":
        return str(podstatus.condition(scaled, "Active").get("reason") or "")
    if autoscaler is None:
        return ""
    limited = podstatus.condition(autoscaler, "ScalingLimited")
    if limited.get("status") == "True":
        return str(limited.get("reason") or "")
    return str(podstatus.condition(autoscaler, "AbleToScale").get("reason") or "")


def _failure(scaled: Json | None, autoscaler: Json | None) -> str:
    if scaled is not None:
        ready = podstatus.condition(scaled, "Ready")
        if ready.get("status") == "False":
            return _said(f"KEDA reports {ready.get('reason')}: {ready.get('message')}")
        failing = [
            f"{name} failed {health.get('numberOfFailures')} times"
            for name, health in sorted(((scaled.get("status") or {}).get("health") or {}).items())
            if health.get("status") == "Failing" and (health.get("numberOfFailures") or 0) >= FAILURES_TOLD
        ]
        if failing:
            return _said(
                f"KEDA cannot read its metric: {', '.join(failing)}. Check the query and its server."
            )
        active = podstatus.condition(scaled, "HPAActive")
        if active.get("status") == "False" and active.get("reason") not in _NO_FAILURE:
            return _said(f"Its autoscaler gets no metrics ({active.get('reason')}): {active.get('message')}")
    if autoscaler is not None:
        for kind in ("AbleToScale", "ScalingActive"):
            seen = podstatus.condition(autoscaler, kind)
            if seen.get("status") == "False" and (seen.get("reason") or "") not in _NO_FAILURE:
                return _said(f"Its autoscaler reports {seen.get('reason')}: {seen.get('message')}")
    return ""


def _said(message: str) -> str:
    return podstatus.shorten(message)


def _metric(spec: Json, status: Json) -> tuple[str, float | None, float | None]:
    """Name, newest value and target of the first metric of an autoscaler."""
    wanted: Json = next(iter(spec.get("metrics") or ()), {})
    source = _source(wanted)
    name = str((source.get("metric") or {}).get("name") or source.get("name") or "")
    target = _number(source.get("target") or {})
    current = next(iter(status.get("currentMetrics") or ()), None) or {}
    return name, _number(_source(current).get("current") or {}), target


def _source(metric: Json) -> dict[str, Any]:
    """`{type: External, external: {...}}` → the inner mapping."""
    kind = str(metric.get("type") or "")
    found = metric.get(kind[:1].lower() + kind[1:]) if kind else None
    return dict(found or {})


def _number(value: Json) -> float | None:
    for key in ("averageUtilization", "value", "averageValue"):
        if value.get(key) is not None:
            return _quantity(value[key])
    return None


def _quantity(value: str | int) -> float | None:
    """A Kubernetes quantity as a number: `70`, `1500m`, `2k`."""
    text = str(value)
    scale = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "u": 1e-6, "n": 1e-9}.get(text[-1:], 1.0)
    try:
        return float(text.rstrip("mkMGun")) * scale
    except ValueError:
        return None
