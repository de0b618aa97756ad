"""What the API server asks of its own kinds over several fields, and which of them may not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from devcluster import kinds
from devcluster.errors import Fault, forbidden_field, required, unsupported, wrong
from devcluster.kinds import Kind
from devcluster.objects import Obj, dig, matches, started

from . import formats
from .pods import container_names, counted, labels, pod_spec, template

DATA_BYTES_MAX = 1 << 20
_NAMES = {kinds.SERVICE: formats.label_1035, kinds.NAMESPACE: formats.label}
_IMMUTABLE = "field is immutable"
_POD_UPDATE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
    "negative),`spec.tolerations` (only additions to existing tolerations)"
)


def metadata(kind: Kind, obj: Obj) -> Iterator[Fault]:
    name = obj["metadata"].get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif why := _NAMES.get(kind, formats.subdomain)(name):
        yield wrong("metadata.name", name, why)
    yield from labels(obj["metadata"].get("labels"), "metadata.labels")


def _job(job: Obj) -> Iterator[Fault]:
    spec = job["spec"]
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    elif spec["completionMode"] == "Indexed" and spec["completions"] > 0:
        last = f"{job['metadata'].get('name', '')}-{spec['completions'] - 1}"
        if why := formats.label(last):
            # The last pod's host name.
            yield wrong("metadata.name", last, why)
    yield from template(spec, "OnFailure", "Never")
    if "podFailurePolicy" in spec:
        yield from _failure_policy(spec)


def _failure_policy(spec: Obj) -> Iterator[Fault]:
    restart = spec["template"]["spec"]["restartPolicy"]
    if restart != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield wrong("spec.template.spec.restartPolicy", restart, why)
    if spec["podReplacementPolicy"] != "Failed":
        yield unsupported("spec.podReplacementPolicy", spec["podReplacementPolicy"], ("Failed",))
    for index, rule in enumerate(spec["podFailurePolicy"].get("rules") or ()):
        where, codes = f"spec.podFailurePolicy.rules[{index}]", rule.get("onExitCodes") or {}
        named, values = codes.get("containerName"), codes.get("values", [])
        if named and named not in container_names(spec["template"]["spec"]):
            why = "must be one of the container or initContainer names in the pod template"
            yield wrong(f"{where}.onExitCodes.containerName", named, why)
        if ("onPodConditions" in rule) == bool(codes):
            yield wrong(where, "", "specifying one of OnExitCodes and OnPodConditions is required")
        if codes.get("operator") == "In" and 0 in values:
            field = f"{where}.onExitCodes.values[{values.index(0)}]"
            yield wrong(field, 0, "must not be 0 for the In operator")


def _workload(obj: Obj) -> Iterator[Fault]:
    """What Deployment and ReplicaSet share."""
    spec = obj["spec"]
    selector, labels = spec.get("selector"), (spec["template"].get("metadata") or {}).get("labels") or {}
    if selector is not None and not matches(selector, labels):
        yield wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from template(spec, "Always")


def _deployment(deployment: Obj) -> Iterator[Fault]:
    strategy, field = deployment["spec"]["strategy"], "spec.strategy.rollingUpdate"
    rolling = strategy.get("rollingUpdate") or {}
    if strategy["type"] == "Recreate" and "rollingUpdate" in strategy:
        yield forbidden_field(field, "may not be specified when strategy `type` is 'Recreate'")
    if {str(rolling.get("maxSurge")), str(rolling.get("maxUnavailable"))} <= {"0", "0%"}:
        yield wrong(f"{field}.maxUnavailable", rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0")
    yield from _workload(deployment)


def _service(service: Obj) -> Iterator[Fault]:
    ports = service["spec"].get("ports") or []
    if not ports and service["spec"].get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield required(f"spec.ports[{index}].name")


def _data(obj: Obj) -> Iterator[Fault]:
    values = obj.get("data") or {}
    yield from (wrong(f"data[{key}]", key, why) for key in values if (why := formats.config_key(key)))
    if sum(map(len, values.values())) > DATA_BYTES_MAX:
        yield Fault("data", "FieldValueTooLong", f"Too long: may not be more than {DATA_BYTES_MAX} bytes")


def _quota(quota: Obj) -> Iterator[Fault]:
    for key, value in ((quota.get("spec") or {}).get("hard") or {}).items():
        yield from counted(key.removeprefix("requests."), value, f"spec.hard[{key}]")


def _budget(budget: Obj) -> Iterator[Fault]:
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield wrong("spec", spec, "minAvailable and maxUnavailable cannot be both set")


def _claim(claim: Obj) -> Iterator[Fault]:
    if "storage" not in (dig(claim, "spec.resources.requests") or {}):
        yield required("spec.resources[storage]")


def _priority_class(priority: Obj) -> Iterator[Fault]:
    if priority["value"] > 10**9 and not priority["metadata"]["name"].startswith("system-"):
        yield forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000")


def _autoscaler(hpa: Obj) -> Iterator[Fault]:
    spec = hpa.get("spec") or {}
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if most < least:
        yield wrong("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    version = dig(spec, "scaleTargetRef.apiVersion") or ""
    if "/" not in version:
        yield wrong("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric, f"spec.metrics[{index}]")


def _metric(metric: Obj, where: str) -> Iterator[Fault]:
    if metric.get("type") not in {"External", "Resource"}:
        return
    name = metric["type"].lower()
    if name not in metric:
        yield required(f"{where}.{name}", "must populate information for the given metric source")
        return
    for other in metric.keys() - {"type", name}:
        yield forbidden_field(f"{where}.{other}", "must populate the given metric source only")
    target, field = metric[name].get("target") or {}, f"{where}.{name}.target"
    both = ("averageValue", "value") if name == "external" else ("averageUtilization", "averageValue")
    if not target.keys() & set(both):
        yield required(f"{field}.{both[0]}", f"must set either {both[0]} or {both[1]}")
    if target.keys() >= set(both):
        yield forbidden_field(f"{field}.{both[1]}", f"may not set both {both[0]} and {both[1]}")


RULES: dict[Kind, Callable[[Obj], Iterator[Fault]]] = {
    kinds.POD: lambda pod: pod_spec(pod["spec"], "spec"), kinds.JOB: _job, kinds.DEPLOYMENT: _deployment, kinds.REPLICA_SET: _workload, kinds.SERVICE: _service,
    kinds.CONFIG_MAP: _data, kinds.SECRET: _data, kinds.QUOTA: _quota, kinds.BUDGET: _budget, kinds.CLAIM: _claim, kinds.PRIORITY_CLASS: _priority_class,
    kinds.AUTOSCALER: _autoscaler,
}  # fmt: skip


# Updates


def changes(kind: Kind, old: Obj, new: Obj) -> Iterator[Fault]:
    """The faults in fields that may not change."""
    for field in _frozen(kind, old):
        before, after = dig(old, field), dig(new, field)
        if before != after:
            yield wrong(field, after, _IMMUTABLE)
    if kind is kinds.SERVICE and old["spec"].get("clusterIPs") != new["spec"].get("clusterIPs"):
        yield wrong("spec.clusterIPs[0]", new["spec"].get("clusterIPs"), "may not change once set")
    if kind is kinds.POD and _fixed_part(old["spec"]) != _fixed_part(new["spec"]):
        yield forbidden_field("spec", _POD_UPDATE)
    if kind in {kinds.CONFIG_MAP, kinds.SECRET} and old.get("immutable"):
        changed = (field for field in ("data", "binaryData") if old.get(field) != new.get(field))
        yield from (forbidden_field(field, "field is immutable when `immutable` is set") for field in changed)


def _fixed_part(spec: Obj) -> Obj:
    rest: dict[str, Any] = {
        k: v for k, v in spec.items() if k not in {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    }
    for part in ("containers", "initContainers"):
        rest[part] = [{k: v for k, v in c.items() if k != "image"} for c in spec.get(part) or ()]
    return rest


_FROZEN = {
    kinds.JOB: ("spec.completions", "spec.selector", "spec.completionMode", "spec.podFailurePolicy"),
    kinds.DEPLOYMENT: ("spec.selector",), kinds.REPLICA_SET: ("spec.selector",), kinds.SERVICE: ("spec.clusterIP",), kinds.SECRET: ("type",),
    kinds.PRIORITY_CLASS: ("value", "preemptionPolicy"), kinds.CLAIM: ("spec.accessModes", "spec.volumeMode"),
}  # fmt: skip


def _frozen(kind: Kind, old: Obj) -> tuple[str, ...]:
    if kind is not kinds.JOB:
        return _FROZEN.get(kind, ())
    suspended = old["spec"].get("suspend") and not started(old)
    # The pods of a Job that has never run may still be changed, but for what they run.
    return (*_FROZEN[kinds.JOB], "spec.template.spec.containers" if suspended else "spec.template")
