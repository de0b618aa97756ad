"""What is refused of a ScaledObject: by the schema of its CustomResourceDefinition, then by KEDA's webhook.

What both let pass and no scaler can be built from shows as Ready=False on the object, as with the real operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import ApiError, Fault, not_implemented, required, wrong
from .kinds import AUTOSCALER, BY_NAME, DEPLOYMENT, SCALED_OBJECT, Kind
from .objects import Obj, name_of, namespace_of
from .schema import UNCHECKED, field_type
from .store import Store

OWNER_LABEL = "scaledobject.keda.sh/name"
SUPPORTED = ("cpu", "cron", "prometheus")
"""The triggers that devcluster has scalers for."""
LABEL_MAX = 63
MAX_DEFAULT = 100
# What KEDA 2.21 has beside these: refused by name, so that nobody takes them for misspelt.
_OF_KEDA = frozenset(
    [
        "activemq",
        "apache-kafka",
        "arangodb",
        "artemis-queue",
        "aws-cloudwatch",
        "aws-dynamodb",
        "aws-dynamodb-streams",
        "aws-kinesis-stream",
        "aws-sqs-queue",
        "azure-app-insights",
        "azure-blob",
        "azure-cosmosdb",
        "azure-data-explorer",
        "azure-eventhub",
        "azure-log-analytics",
        "azure-monitor",
        "azure-pipelines",
        "azure-queue",
        "azure-servicebus",
        "beanstalkd",
        "cassandra",
        "clickhouse",
        "couchdb",
        "datadog",
        "dynatrace",
        "elastic-forecast",
        "elasticsearch",
        "etcd",
        "external",
        "external-mock",
        "external-push",
        "forgejo-runner",
        "gcp-cloudtasks",
        "gcp-pubsub",
        "gcp-spanner",
        "gcp-stackdriver",
        "gcp-storage",
        "github-runner",
        "graphite",
        "huawei-cloudeye",
        "ibmmq",
        "influxdb",
        "kafka",
        "kubernetes-resource",
        "kubernetes-workload",
        "liiklus",
        "loki",
        "memory",
        "metrics-api",
        "mongodb",
        "mssql",
        "mysql",
        "nats-jetstream",
        "new-relic",
        "nsq",
        "opensearch",
        "openstack-metric",
        "openstack-swift",
        "postgresql",
        "predictkube",
        "pulsar",
        "rabbitmq",
        "redis",
        "redis-cluster",
        "redis-cluster-streams",
        "redis-sentinel",
        "redis-sentinel-streams",
        "redis-streams",
        "selenium-grid",
        "solace-direct-messaging",
        "solace-event-queue",
        "solarwinds",
        "solr",
        "splunk",
        "splunk-observability",
        "sumologic",
        "temporal",
    ]
)
_REQUIRED = {
    "ScaledObjectSpec": ("scaleTargetRef", "triggers"), "ScaleTarget": ("name",), "ScaleTriggers": ("metadata", "type"),
    "Fallback": ("failureThreshold", "replicas"), "AuthenticationRef": ("name",),
    "HPAScalingPolicy": ("periodSeconds", "type", "value"),
}  # fmt: skip
_LEAST = {
    ("ScaledObjectSpec", "pollingInterval"): 1, ("ScaledObjectSpec", "initialCooldownPeriod"): 0,
    ("ScaledObjectSpec", "cooldownPeriod"): 0, ("ScaledObjectSpec", "idleReplicaCount"): 0,
    ("ScaledObjectSpec", "minReplicaCount"): 0, ("ScaledObjectSpec", "maxReplicaCount"): 1,
    ("Fallback", "failureThreshold"): 0, ("Fallback", "replicas"): 0,
}  # fmt: skip
_CHOICES = {
    ("Fallback", "behavior"): (
        "static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower", "scalingModifiers",
    ),
    ("ScalingModifiers", "metricType"): ("AverageValue", "Value"),
    ("AuthenticationRef", "kind"): ("TriggerAuthentication", "ClusterTriggerAuthentication"),
}  # fmt: skip
_NOT_EMPTY = (("ScaleTarget", "name"), ("ScaleTriggers", "type"))


# The schema


def scaled_object(obj: Obj) -> Iterator[Fault]:
    """What the definition's schema refuses; 501 for what devcluster does not scale by."""
    if "spec" not in obj:
        yield required("spec")
        return
    spec, faults = obj["spec"], list(_schema("ScaledObjectSpec", obj["spec"], "spec"))
    yield from faults
    if any(fault.reason in {"FieldValueRequired", "FieldValueNotSupported"} for fault in faults):
        yield UNCHECKED
        return
    if spec.get("minReplicaCount", 0) > spec.get("maxReplicaCount", MAX_DEFAULT):
        text = "minReplicaCount must be less than or equal to maxReplicaCount"
        yield Fault("spec", "FieldValueInvalid", f"Invalid value: {text}")
    if not faults:
        _honest(spec)


def _schema(type_: str, value: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, list):
        if type_ == "List[ScaleTriggers]" and not value:
            yield wrong(path, 0, f"{path} in body should have at least 1 items")
        for index, item in enumerate(value):
            yield from _schema(type_[5:-1], item, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from (required(f"{path}.{name}") for name in _REQUIRED.get(type_, ()) if name not in value)
        for key, item in value.items():
            yield from _field(type_, key, item, f"{path}.{key}")
            yield from _schema(field_type(type_, key), item, f"{path}.{key}")


def _field(type_: str, key: str, value: Any, path: str) -> Iterator[Fault]:
    least = _LEAST.get((type_, key))
    if least is not None and value < least:
        yield wrong(path, value, f"{path} in body should be greater than or equal to {least}")
    choices = _CHOICES.get((type_, key))
    if choices is not None and value not in choices:
        # In the schema's own order.
        known = ", ".join(f'"{choice}"' for choice in choices)
        yield Fault(
            path, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {known}'
        )
    if (type_, key) in _NOT_EMPTY and not value:
        yield wrong(path, value, f"{path} in body should be at least 1 chars long")


def _honest(spec: Obj) -> None:
    advanced = spec.get("advanced") or {}
    if any((advanced.get("scalingModifiers") or {}).values()):
        raise not_implemented("ScaledObject spec.advanced.scalingModifiers")
    for index, trigger in enumerate(spec["triggers"]):
        where = f"ScaledObject spec.triggers[{index}]"
        if trigger["type"] in _OF_KEDA:
            raise not_implemented(f"{where}.type {trigger['type']} (only {', '.join(SUPPORTED)})")
        if "authenticationRef" in trigger:
            raise not_implemented(f"{where}.authenticationRef")


# The webhook


def target_kind(spec: Obj) -> Kind | None:
    """What the ScaledObject scales; None for a kind that nobody serves."""
    ref = spec["scaleTargetRef"]
    return BY_NAME.get((ref.get("apiVersion") or "apps/v1", ref.get("kind") or DEPLOYMENT.name))


def hpa_name(obj: Obj) -> str:
    """Of the HorizontalPodAutoscaler that KEDA makes for it."""
    config = (obj["spec"].get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    return config.get("name") or f"keda-hpa-{name_of(obj)}"


def bounds(spec: Obj) -> str:
    """What is wrong with the replica counts; empty when nothing is."""
    least, most = spec.get("minReplicaCount"), spec.get("maxReplicaCount", MAX_DEFAULT)
    least = 0 if least is None else max(1, least)
    if least > most:
        return f"MinReplicaCount={least} must be less than MaxReplicaCount={most}"
    idle = spec.get("idleReplicaCount")
    if idle is not None and idle >= least:
        return f"IdleReplicaCount={idle} must be less than MinReplicaCount={least}"
    return ""


def repeated_trigger(triggers: list[Obj]) -> str:
    """What is wrong with the list of triggers; empty when nothing is."""
    names = [trigger["name"] for trigger in triggers if trigger.get("name")]
    for trigger in triggers:
        if trigger.get("useCachedMetrics") and trigger["type"] in {"cpu", "memory", "cron"}:
            return f'property "useCachedMetrics" is not supported for "{trigger["type"]}" scaler'
        if names.count(trigger.get("name")) > 1:
            return (
                f'triggerName "{trigger["name"]}" is defined multiple times in the ScaledObject/ScaledJob, '
                "but it must be unique"
            )
    return ""


def review(store: Store, obj: Obj) -> None:
    """Raise KEDA's denial if there is one."""
    for text in _webhook(store, obj):
        message = f'admission webhook "vscaledobject.kb.io" denied the request: {text}'
        raise ApiError(403, "Forbidden", message)


def _webhook(store: Store, obj: Obj) -> Iterator[str]:
    spec, where, name = obj["spec"], namespace_of(obj), name_of(obj)
    ref, kind = spec["scaleTargetRef"], target_kind(obj["spec"])
    if kind is None:
        version, word = ref.get("apiVersion") or "apps/v1", ref.get("kind") or DEPLOYMENT.name
        yield f'no matches for kind "{word}" in version "{version}"'
        return
    gvk = f"{kind.api_version}.{kind.name}"
    for other in store.list(SCALED_OBJECT, where):
        if name_of(other) == name:
            continue
        same = target_kind(other["spec"]) is kind and other["spec"]["scaleTargetRef"]["name"] == ref["name"]
        if same:
            text = f"the workload '{ref['name']}' of type '{gvk}' is already managed by the ScaledObject"
            yield f"{text} '{name_of(other)}'"
        if hpa_name(other) == hpa_name(obj):
            yield f"the HPA '{hpa_name(obj)}' is already managed by the ScaledObject '{name_of(other)}'"
    yield from _other_autoscalers(store, obj, kind)
    yield from _requests(store, obj, kind)
    yield from filter(None, (bounds(spec), repeated_trigger(spec["triggers"])))
    if "fallback" in spec and all(trigger["type"] in {"cpu", "memory"} for trigger in spec["triggers"]):
        yield (
            "at least one trigger (that is not cpu or memory) has to have the `AverageValue` type for the fallback "
            "to be enabled"
        )
    yield from _names(obj)


def _names(obj: Obj) -> Iterator[str]:
    name, hpa = name_of(obj), hpa_name(obj)
    if len(name) > LABEL_MAX:
        yield (
            f'scaledobject name "{name}" is {len(name)} characters long; must be no more than {LABEL_MAX} characters '
            f'because it is used as the "{OWNER_LABEL}" label value'
        )
    if len(hpa) > LABEL_MAX:
        yield (
            f'HPA name "{hpa}" derived from scaledobject is {len(hpa)} characters long; must be no more than {LABEL_MAX} '
            "characters; set spec.advanced.horizontalPodAutoscalerConfig.name to a shorter name or shorten the "
            "scaledobject name"
        )


def _other_autoscalers(store: Store, obj: Obj, kind: Kind) -> Iterator[str]:
    annotations, wanted = obj["metadata"].get("annotations") or {}, obj["spec"]["scaleTargetRef"]["name"]
    gvk = f"{kind.api_version}.{kind.name}"
    for hpa in store.list(AUTOSCALER, namespace_of(obj)):
        ref, owners = hpa["spec"]["scaleTargetRef"], hpa["metadata"].get("ownerReferences") or ()
        ours = any(o["kind"] == SCALED_OBJECT.name and o["name"] == name_of(obj) for o in owners)
        checked = (hpa["metadata"].get("annotations") or {}).get(
            "validations.keda.sh/hpa-ownership"
        ) != "false"
        if ours or not checked or ref["name"] != wanted:
            continue
        if BY_NAME.get((ref["apiVersion"], ref["kind"])) is not kind:
            continue
        if annotations.get("scaledobject.keda.sh/transfer-hpa-ownership") != "true":
            yield f"the workload '{wanted}' of type '{gvk}' is already managed by the hpa '{name_of(hpa)}'"
        elif hpa_name(obj) != name_of(hpa):
            yield (
                f"the existing hpa '{name_of(hpa)}' for workload '{wanted}' of type '{gvk}' must be specified by name in "
                "advanced settings to enable ownership transfer"
            )


def _requests(store: Store, obj: Obj, kind: Kind) -> Iterator[str]:
    """Usage in percent needs an amount to be a share of, and nothing of it is left at zero."""
    spec = obj["spec"]
    cpu = [trigger for trigger in spec["triggers"] if trigger["type"] == "cpu"]
    if not cpu or kind is not DEPLOYMENT:
        return
    target = store.get(DEPLOYMENT, namespace_of(obj), spec["scaleTargetRef"]["name"])
    if target is None:
        yield f'Deployment.apps "{spec["scaleTargetRef"]["name"]}" not found'
        return
    for trigger in cpu:
        only = trigger["metadata"].get("containerName", "")
        for container in target["spec"]["template"]["spec"]["containers"]:
            if only in {"", container["name"]} and "cpu" not in container["resources"].get("requests", {}):
                yield (
                    f"the scaledobject has a cpu trigger but the container {container['name']} doesn't have the cpu "
                    "request defined"
                )
    if len(cpu) == len(spec["triggers"]) and spec.get("minReplicaCount", 0) == 0:
        yield (
            "scaledobject has only cpu/memory triggers AND minReplica is 0 (scale to zero doesn't work in this case)"
        )
