"""Validation of a HorizontalPodAutoscaler, with the wording of the real server."""

from __future__ import annotations

from collections.abc import Iterator

from .errors import Fault, bad_request, forbidden_field, not_implemented, required, unsupported, wrong
from .objects import Obj, quantity
from .validate_pod import QUANTITY_TEXT

SOURCES = {
    "ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods",
    "Resource": "resource",
}  # fmt: skip
WINDOW_MAX, PERIOD_MAX = 3600, 1800
_POSITIVE = "must be greater than zero"


def autoscaler(hpa: Obj) -> Iterator[Fault]:
    """Faults of the spec; 501 for metrics that only a custom metrics API could answer."""
    spec = hpa.get("spec") or {}
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if least < 1:
        yield wrong("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield wrong("spec.maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        yield wrong("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from _target_ref(spec.get("scaleTargetRef") or {})
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric, f"spec.metrics[{index}]")
    for way in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(way)
        if rules is not None:
            yield from _rules(rules, f"spec.behavior.{way}")


def _target_ref(ref: Obj) -> Iterator[Fault]:
    yield from (required(f"spec.scaleTargetRef.{name}") for name in ("kind", "name") if not ref.get(name))
    version = ref.get("apiVersion", "")
    if "/" not in version and ref.get("kind") != "ReplicationController":
        yield wrong("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")


def _metric(metric: Obj, where: str) -> Iterator[Fault]:
    type_ = metric.get("type", "")
    if type_ in {"Object", "Pods"}:
        raise not_implemented(f"metrics of type {type_} in a HorizontalPodAutoscaler (a custom metrics API)")
    if not type_:
        yield required(f"{where}.type", "must specify a metric source type")
    if type_ not in SOURCES:
        yield from [unsupported(f"{where}.type", type_, tuple(SOURCES))] * 2
        return
    given = [name for name in SOURCES.values() if name in metric]
    if SOURCES[type_] not in given:
        yield required(f"{where}.{SOURCES[type_]}", "must populate information for the given metric source")
    for name in given:
        if len(given) > 1 and name != SOURCES[type_]:
            yield forbidden_field(f"{where}.{name}", "must populate the given metric source only")
    if given:
        check = _external if given[0] == "external" else _resource
        yield from check(metric[given[0]], f"{where}.{given[0]}")


def _external(source: Obj, where: str) -> Iterator[Fault]:
    target = source.get("target") or {}
    if not (source.get("metric") or {}).get("name"):
        yield required(f"{where}.metric.name", "must specify a metric name")
    yield from _target(target, f"{where}.target")
    if not {"value", "averageValue"} & target.keys():
        yield required(
            f"{where}.target.averageValue", "must set either a target value for metric or a per-pod target"
        )
    if {"value", "averageValue"} <= target.keys():
        yield forbidden_field(
            f"{where}.target.value", "may not set both a target value for metric and a per-pod target"
        )


def _resource(source: Obj, where: str) -> Iterator[Fault]:
    target = source.get("target") or {}
    if not source.get("name"):
        yield required(f"{where}.name", "must specify a resource name")
    if where.endswith("containerResource") and not source.get("container"):
        yield required(f"{where}.container", "must specify a container")
    yield from _target(target, f"{where}.target")
    if not {"averageUtilization", "averageValue"} & target.keys():
        yield required(
            f"{where}.target.averageUtilization",
            "must set either a target raw value or a target utilization",
        )
    if {"averageUtilization", "averageValue"} <= target.keys():
        yield forbidden_field(
            f"{where}.target.averageValue", "may not set both a target raw value and a target utilization"
        )


def _target(target: Obj, where: str) -> Iterator[Fault]:
    type_ = target.get("type", "")
    if not type_:
        yield required(f"{where}.type", "must specify a metric target type")
    elif type_ not in {"Utilization", "Value", "AverageValue"}:
        yield wrong(f"{where}.type", type_, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        if name in target and quantity(target[name]) <= 0:
            yield wrong(f"{where}.{name}", target[name], "must be positive")
    if target.get("averageUtilization", 1) < 1:
        yield wrong(f"{where}.averageUtilization", target["averageUtilization"], "must be greater than 0")


def _rules(rules: Obj, where: str) -> Iterator[Fault]:
    window = rules.get("stabilizationWindowSeconds", 0)
    if window < 0:
        yield wrong(f"{where}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window > WINDOW_MAX:
        yield wrong(
            f"{where}.stabilizationWindowSeconds", window, f"must be less than or equal to {WINDOW_MAX}"
        )
    if rules["selectPolicy"] not in {"Disabled", "Max", "Min"}:
        yield unsupported(f"{where}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not rules["policies"]:
        yield required(f"{where}.policies", "must specify at least one Policy")
    if "tolerance" in rules and quantity(rules["tolerance"]) < 0:
        yield wrong(f"{where}.tolerance", rules["tolerance"], "must be greater than or equal to 0")
    yield from _policies(rules, where)


def _policies(rules: Obj, where: str) -> Iterator[Fault]:
    for index, policy in enumerate(rules["policies"]):
        at, period = f"{where}.policies[{index}]", policy.get("periodSeconds", 0)
        if policy.get("type", "") not in {"Percent", "Pods"}:
            yield unsupported(f"{at}.type", policy.get("type", ""), ("Percent", "Pods"))
        if policy.get("value", 0) <= 0:
            yield wrong(f"{at}.value", policy.get("value", 0), _POSITIVE)
        if period <= 0:
            yield wrong(f"{at}.periodSeconds", period, _POSITIVE)
        if period > PERIOD_MAX:
            yield wrong(f"{at}.periodSeconds", period, f"must be less than or equal to {PERIOD_MAX}")


def readable(value: object) -> str:
    """A quantity as text; 400 where it is none."""
    try:
        quantity(str(value))
    except ValueError as error:
        raise bad_request(
            'HorizontalPodAutoscaler in version "v2" cannot be handled as a HorizontalPodAutoscaler: '
            f"{QUANTITY_TEXT}"
        ) from error
    return str(value)
