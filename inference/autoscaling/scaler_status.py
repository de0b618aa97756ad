"""What a ScaledObject and its HorizontalPodAutoscaler say, as facts and sentences. Pure: raw JSON in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from foundation.digits import whole_number
from inference.autoscaling import scalers
from inference.autoscaling.scalers import NO_SCALER, PAUSED, PAUSED_REPLICAS, SCALER_ANNOTATION
from workloads.pods import pod_status
from workloads.pods.observation import ScalerFacts
from workloads.pods.pod_status import Json

SCALED_OBJECT = "ScaledObject"
AUTOSCALER = "HorizontalPodAutoscaler"
_NO_FAILURE = frozenset({"ScalingDisabled", ""})
"""Why an autoscaler may be inactive without anything being wrong: its target has no replicas."""

FAILURES_TOLD = 3
"""One failed reading is no news: the next one follows within seconds."""

_ASKED = re.compile(r"\?query=[^\s\"']+")

_QUERY = "Check the query, and whether KEDA reaches its Prometheus (setting scaler_prometheus_url)."
_OF_KEDA = "An admin finds more in the log of KEDA's operator."
_OF_AUTOSCALER = "An admin finds more with `kubectl describe` of the HorizontalPodAutoscaler."
_CPU = "Pods that have just started have no values yet; if it lasts, an admin looks at metrics-server."
_SELECTOR = "Another scaler or Deployment takes hold of the same pods. Delete the other one, which the portal did not make."
_SCALE = "It tries again; if it lasts, an admin checks the autoscaler's rights to the Deployment."
_FIXES = {
    "TriggerError": _QUERY,
    "ScaledObjectCheckFailed": "Correct what it names in `scaling`; another scaler of the same Deployment has to be deleted.",
    "ErrorGettingCurrentReplicas": "An admin checks KEDA's rights to read and scale Deployments.",
    "ErrorScalingTarget": "An admin checks KEDA's rights to read and scale Deployments.",
    "HPAMetricsUnavailable": "An admin looks at KEDA's metrics API server, which does not answer the autoscaler.",
    "FailedGetExternalMetric": f"{_QUERY} If both are right, an admin looks at KEDA's metrics API server.",
    "FailedGetResourceMetric": _CPU,
    "FailedGetContainerResourceMetric": _CPU,
    "InvalidSelector": _SELECTOR,
    "AmbiguousSelector": _SELECTOR,
    "FailedGetScale": _SCALE,
    "FailedUpdateScale": _SCALE,
}
"""What to do, by the reason of the condition that says what is wrong."""

_MADE = {scalers.KEDA: SCALED_OBJECT, scalers.AUTOSCALER: AUTOSCALER}


def lacks_scaler(deployment: Json, companions: Sequence[Json]) -> bool:
    """Whether the scaler that was made with the Deployment is not there any more."""
    kind = _MADE.get(_annotation(deployment))
    return kind is not None and all(companion.get("kind") != kind for companion in companions)


def scaler_of(deployment: Json, companions: Sequence[Json]) -> ScalerFacts | None:
    """What its scaler says, or that it is missing. None where nothing is to scale it."""
    if _annotation(deployment) == NO_SCALER:
        return ScalerFacts(
            failure="Nothing scales it: what it scales by needs KEDA, which the cluster does not offer any more. Have KEDA "
            "offered again, which is noticed, or scale by cpu.",
            unscaled=True,
        )
    if lacks_scaler(deployment, companions):
        return ScalerFacts(failure="Its scaler is not in the cluster; it is made again.")
    return read_scaler(companions, at_zero=deployment["spec"].get("replicas") == 0)


def _annotation(deployment: Json) -> str:
    return str((deployment["metadata"].get("annotations") or {}).get(SCALER_ANNOTATION) or "")


def read_scaler(companions: Sequence[Json], *, at_zero: bool) -> ScalerFacts | None:
    """The scaler's own words about itself; None where there is no scaler."""
    scaled = next((companion for companion in companions if companion.get("kind") == SCALED_OBJECT), None)
    autoscaler = next((companion for companion in companions if companion.get("kind") == AUTOSCALER), None)
    if scaled is None and autoscaler is None:
        return None
    spec = (autoscaler or {}).get("spec") or {}
    status = (autoscaler or {}).get("status") or {}
    keda = (scaled or {}).get("spec") or {}
    metric, value, target = _metric(spec, status)
    return ScalerFacts(
        minimum=keda.get("minReplicaCount", spec.get("minReplicas")),
        maximum=keda.get("maxReplicaCount", spec.get("maxReplicas")),
        reach=_reach(scaled, autoscaler),
        wanted=status.get("desiredReplicas"),
        metric=metric,
        value=value,
        target=target,
        decision=_decision(scaled, autoscaler, at_zero=at_zero),
        failure=_failure(scaled, autoscaler),
        falls_back=scaled is not None and _is_true(scaled, "Fallback"),
        paused=scaled is not None and _is_held(scaled),
    )


def _reach(scaled: Json | None, autoscaler: Json | None) -> int | None:
    """The most of any of its objects: KEDA's autoscaler follows the ScaledObject, and a held number follows both."""
    annotations = ((scaled or {}).get("metadata") or {}).get("annotations") or {}
    bounds = [
        ((scaled or {}).get("spec") or {}).get("maxReplicaCount"),
        ((autoscaler or {}).get("spec") or {}).get("maxReplicas"),
        whole_number(str(annotations.get(PAUSED_REPLICAS) or "")),
    ]
    return max((bound for bound in bounds if bound is not None), default=None)


def _is_true(item: Json, kind: str) -> bool:
    return pod_status.condition(item, kind).get("status") == "True"


def _is_held(scaled: Json) -> bool:
    """Whether its annotations hold it: the condition comes later, and is set for one-way pauses too."""
    annotations = (scaled.get("metadata") or {}).get("annotations") or {}
    return PAUSED in annotations or PAUSED_REPLICAS in annotations


def _decision(scaled: Json | None, autoscaler: Json | None, *, at_zero: bool) -> str:
    """Why it holds this number of replicas."""
    # Above zero the autoscaler decides: whether KEDA sees a load at all only tells zero from one.
    if scaled is not None and (at_zero or autoscaler is None):
        return str(pod_status.condition(scaled, "Active").get("reason") or "")
    if autoscaler is None:
        return ""
    limited = pod_status.condition(autoscaler, "ScalingLimited")
    if limited.get("status") == "True":
        return str(limited.get("reason") or "")
    return str(pod_status.condition(autoscaler, "AbleToScale").get("reason") or "")


def _failure(scaled: Json | None, autoscaler: Json | None) -> str:
    if scaled is not None:
        ready = pod_status.condition(scaled, "Ready")
        if ready.get("status") == "False":
            return _condition_words("KEDA reports", ready, _OF_KEDA)
        failing = [
            f"{name} failed {health.get('numberOfFailures')} times"
            for name, health in sorted(((scaled.get("status") or {}).get("health") or {}).items())
            if health.get("status") == "Failing" and (health.get("numberOfFailures") or 0) >= FAILURES_TOLD
        ]
        if failing:
            return _with_fix(f"KEDA cannot read its metric: {', '.join(failing)}", _QUERY)
        active = pod_status.condition(scaled, "HPAActive")
        if active.get("status") == "False" and active.get("reason") not in _NO_FAILURE:
            return _condition_words("Its autoscaler gets no metrics:", active, _OF_AUTOSCALER)
    if autoscaler is not None:
        for kind in ("AbleToScale", "ScalingActive"):
            seen = pod_status.condition(autoscaler, kind)
            if seen.get("status") == "False" and (seen.get("reason") or "") not in _NO_FAILURE:
                return _condition_words("Its autoscaler reports", seen, _OF_AUTOSCALER)
    return ""


def _condition_words(who: str, condition: Json, others: str) -> str:
    """What the condition says and what to do about it; `others` is the advice for reasons that are not known here."""
    reason = str(condition.get("reason") or "")
    return _with_fix(f"{who} {reason}: {condition.get('message')}", _FIXES.get(reason, others))


def _with_fix(message: str, fix: str) -> str:
    """The message with the fix, which stays whole: the message is cut. Its cause comes last, after the query, which is known."""
    room = pod_status.MESSAGE_LENGTH_MAX - len(fix) - 2
    text = pod_status.shorten(_ASKED.sub("?…", message))
    shown = text if len(text) <= room else text[: room - 1] + "…"
    return f"{shown.rstrip('.')}. {fix}"


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
    inner = metric.get(kind[:1].lower() + kind[1:]) if kind else None
    return dict(inner or {})


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
