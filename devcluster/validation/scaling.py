"""KEDA's webhook for ScaledObjects, and what its operator asks of them again.

What it lets pass and no scaler can be built from shows as Ready=False on the object, as with the real operator.
"""

from __future__ import annotations

from collections.abc import Iterator

from devcluster.errors import Fault, not_implemented, webhook_denial
from devcluster.kinds import AUTOSCALER, BY_NAME, DEPLOYMENT, SCALED_OBJECT, Kind
from devcluster.objects import Obj, dig, name_of, namespace_of
from devcluster.store import Store

OWNER_LABEL = "scaledobject.keda.sh/name"
LABEL_MAX = 63
MAX_DEFAULT = 100
_MEASURED = {"cpu", "memory"}
_METADATA = {
    "cpu": {"value"}, "cron": {"timezone", "start", "end", "desiredReplicas"},
    "prometheus": {"serverAddress", "query", "threshold", "activationThreshold", "ignoreNullValues"},
}  # fmt: skip
"""What the triggers are played by."""


def rule(obj: Obj) -> Iterator[Fault]:
    """The one that the definition has beside its fields'; 501 for what no field of its own says."""
    spec = obj["spec"]
    for trigger in spec["triggers"]:
        for name in sorted(trigger["metadata"].keys() - _METADATA.get(trigger["type"], trigger["metadata"])):
            raise not_implemented(f"{name} of a {trigger['type']} trigger")
    if spec.get("minReplicaCount", 0) > spec.get("maxReplicaCount", MAX_DEFAULT):
        text = "minReplicaCount must be less than or equal to maxReplicaCount"
        yield Fault("spec", "FieldValueInvalid", f"Invalid value: {text}")


def target_kind(spec: Obj) -> Kind | None:
    """What the ScaledObject scales; None for a kind that is not served."""
    ref = spec["scaleTargetRef"]
    return BY_NAME.get((ref.get("apiVersion") or "apps/v1", ref.get("kind") or DEPLOYMENT.name))


def target_of(store: Store, obj: Obj) -> Obj | None:
    kind = target_kind(obj["spec"])
    return store.get(kind, namespace_of(obj), obj["spec"]["scaleTargetRef"]["name"]) if kind else None


def no_target_kind(spec: Obj) -> str:
    ref = spec["scaleTargetRef"]
    version, kind = ref.get("apiVersion") or "apps/v1", ref.get("kind") or DEPLOYMENT.name
    return f'no matches for kind "{kind}" in version "{version}"'


def hpa_name(obj: Obj) -> str:
    """The name of the HorizontalPodAutoscaler that KEDA makes for it."""
    return dig(obj, "spec.advanced.horizontalPodAutoscalerConfig.name") or f"keda-hpa-{name_of(obj)}"


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
        if names.count(trigger.get("name")) > 1:
            return (
                f'triggerName "{trigger["name"]}" is defined multiple times in the ScaledObject/ScaledJob, '
                "but it must be unique"
            )
    return ""


def review(store: Store, obj: Obj) -> None:
    """Raise KEDA's denial if there is one."""
    for text in _denials(store, obj):
        raise webhook_denial("vscaledobject.kb.io", text)


def _denials(store: Store, obj: Obj) -> Iterator[str]:
    spec, kind = obj["spec"], target_kind(obj["spec"])
    if kind is None:
        yield no_target_kind(spec)
        return
    yield from _others(store, obj, kind)
    yield from _other_autoscalers(store, obj, kind)
    yield from _requests(store, obj, kind)
    yield from filter(None, (bounds(spec), repeated_trigger(spec["triggers"])))
    if "fallback" in spec and all(trigger["type"] in _MEASURED for trigger in spec["triggers"]):
        yield (
            "at least one trigger (that is not cpu or memory) has to have the `AverageValue` type for the fallback "
            "to be enabled"
        )
    name, hpa = name_of(obj), hpa_name(obj)
    longest = f"characters long; must be no more than {LABEL_MAX} characters"
    if len(name) > LABEL_MAX:
        yield f'scaledobject name "{name}" is {len(name)} {longest} because it is used as the "{OWNER_LABEL}" label value'
    if len(hpa) > LABEL_MAX:
        yield (
            f'HPA name "{hpa}" derived from scaledobject is {len(hpa)} {longest}; set '
            "spec.advanced.horizontalPodAutoscalerConfig.name to a shorter name or shorten the scaledobject name"
        )


def _managed(obj: Obj, kind: Kind) -> str:
    return f"the workload '{obj['spec']['scaleTargetRef']['name']}' of type '{kind.api_version}.{kind.name}'"


def _others(store: Store, obj: Obj, kind: Kind) -> Iterator[str]:
    wanted = obj["spec"]["scaleTargetRef"]["name"]
    for other in store.list(SCALED_OBJECT, namespace_of(obj)):
        if name_of(other) == name_of(obj):
            continue
        if target_kind(other["spec"]) is kind and other["spec"]["scaleTargetRef"]["name"] == wanted:
            yield f"{_managed(obj, kind)} is already managed by the ScaledObject '{name_of(other)}'"
        if hpa_name(other) == hpa_name(obj):
            yield f"the HPA '{hpa_name(obj)}' is already managed by the ScaledObject '{name_of(other)}'"


def _other_autoscalers(store: Store, obj: Obj, kind: Kind) -> Iterator[str]:
    wanted = obj["spec"]["scaleTargetRef"]["name"]
    for hpa in store.list(AUTOSCALER, namespace_of(obj)):
        ref, owners = hpa["spec"]["scaleTargetRef"], hpa["metadata"].get("ownerReferences") or ()
        ours = any(o["kind"] == SCALED_OBJECT.name and o["name"] == name_of(obj) for o in owners)
        same = ref["name"] == wanted and BY_NAME.get((ref["apiVersion"], ref["kind"])) is kind
        if same and not ours:
            yield f"{_managed(obj, kind)} is already managed by the hpa '{name_of(hpa)}'"


def _requests(store: Store, obj: Obj, kind: Kind) -> Iterator[str]:
    """Usage in percent needs an amount to be a share of, and nothing of it is left at zero."""
    spec = obj["spec"]
    cpu = [trigger for trigger in spec["triggers"] if trigger["type"] == "cpu"]
    if not cpu or kind is not DEPLOYMENT:
        return
    name = spec["scaleTargetRef"]["name"]
    target = store.get(DEPLOYMENT, namespace_of(obj), name)
    if target is None:
        yield f'Deployment.apps "{name}" not found'
        return
    for container in target["spec"]["template"]["spec"]["containers"]:
        if "cpu" not in container["resources"].get("requests", {}):
            text = f"the scaledobject has a cpu trigger but the container {container['name']}"
            yield f"{text} doesn't have the cpu request defined"
    if len(cpu) == len(spec["triggers"]) and spec.get("minReplicaCount", 0) == 0:
        yield "scaledobject has only cpu/memory triggers AND minReplica is 0 (scale to zero doesn't work in this case)"
