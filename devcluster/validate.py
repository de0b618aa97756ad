"""Validation of the served kinds on create and on update, with the wording of the real server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from .errors import Fault, forbidden_field, not_implemented, required, unsupported, wrong
from .kinds import (
    AUTOSCALER,
    BUDGET,
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    PYTORCH_JOB,
    QUOTA,
    REPLICA_SET,
    SCALED_OBJECT,
    SECRET,
    SERVICE,
    Kind,  # fmt: skip
)
from .objects import Obj, matches, quantity
from .validate_autoscaler import autoscaler
from .validate_pod import NOT_NEGATIVE, QUANTITY_TEXT, extended, label, pod_spec
from .validate_pytorchjob import pytorch_job, queue_change, review
from .validate_scaledobject import scaled_object

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
IMMUTABLE = "field is immutable"
_LABEL_NAMED = (NAMESPACE,)


def metadata(kind: Kind, obj: Obj) -> Iterator[Fault]:
    meta = obj["metadata"]
    yield from _name(kind, meta.get("name", ""))
    yield from _label_map(meta.get("labels") or {}, "metadata.labels")
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                detail = "must not be empty" if key != "apiVersion" else "version must not be empty"
                yield wrong(f"metadata.ownerReferences[{index}].{key}", owner.get(key, ""), detail)


def _name(kind: Kind, name: str) -> Iterator[Fault]:
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif kind is SERVICE:
        if not LABEL_1035.fullmatch(name):
            yield wrong("metadata.name", name, LABEL_1035_TEXT)
        elif len(name) > 63:
            yield wrong("metadata.name", name, "must be no more than 63 bytes")
    elif kind in _LABEL_NAMED:
        yield from label(name, "metadata.name")
    elif not SUBDOMAIN.fullmatch(name):
        yield wrong("metadata.name", name, SUBDOMAIN_TEXT)
    elif len(name) > 253:
        yield wrong("metadata.name", name, "must be no more than 253 bytes")


def _label_map(labels: dict[str, str], field: str) -> Iterator[Fault]:
    for key, value in labels.items():
        if not LABEL_KEY.fullmatch(key):
            yield wrong(field, key, LABEL_KEY_TEXT)
        if not LABEL_VALUE.fullmatch(value):
            yield wrong(field, value, LABEL_VALUE_TEXT)
        elif len(value) > 63:
            yield wrong(field, value, "must be no more than 63 bytes")


def _pod(pod: Obj) -> Iterator[Fault]:
    yield from pod_spec(pod["spec"], "spec")


def _job(job: Obj) -> Iterator[Fault]:
    spec = job["spec"]
    for missing in (
        "successPolicy",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "managedBy",
        "manualSelector",
    ):
        if spec.get(missing):
            raise not_implemented(f"Job spec.{missing}")
    yield from _indexes(job)
    for name in (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ):
        if spec.get(name, 0) < 0:
            yield wrong(f"spec.{name}", spec[name], NOT_NEGATIVE)
    template = spec["template"]
    yield from _label_map((template.get("metadata") or {}).get("labels") or {}, "spec.template.labels")
    yield from pod_spec(template["spec"], "spec.template.spec", ("Never", "OnFailure"))
    policy = template["spec"]["restartPolicy"]
    if policy not in {"OnFailure", "Never"}:
        text = 'valid values: "OnFailure", "Never"'
        yield Fault("spec.template.spec.restartPolicy", "FieldValueRequired", f"Required value: {text}")
    yield from _failure_policy(spec, policy)


def _indexes(job: Obj) -> Iterator[Fault]:
    """What numbered pods need: how many there are, and names that a host may have."""
    spec, field = job["spec"], "spec.completionMode"
    if spec["completionMode"] == "NonIndexed":
        return
    if spec["completionMode"] != "Indexed":
        yield unsupported(field, spec["completionMode"], ("Indexed", "NonIndexed"))
    elif "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    elif spec["completions"] > 0:
        # The last pod's host name.
        yield from label(f"{job['metadata']['name']}-{spec['completions'] - 1}", "metadata.name")


def _failure_policy(spec: Obj, restart: str) -> Iterator[Fault]:
    if "podFailurePolicy" not in spec:
        return
    field = "spec.podFailurePolicy"
    if restart != "Never":
        yield wrong(
            "spec.template.spec.restartPolicy",
            restart,
            'only "Never" is supported when podFailurePolicy is specified',
        )
    if spec["podReplacementPolicy"] != "Failed":
        yield unsupported("spec.podReplacementPolicy", spec["podReplacementPolicy"], ("Failed",))
    for index, rule in enumerate(spec["podFailurePolicy"].get("rules") or ()):
        where = f"{field}.rules[{index}]"
        if rule.get("action") not in {"FailJob", "Ignore", "Count"}:
            yield unsupported(
                f"{where}.action", rule.get("action", ""), ("Count", "FailIndex", "FailJob", "Ignore")
            )
        codes = rule.get("onExitCodes")
        named = (codes or {}).get("containerName")
        if named and named not in {c.get("name") for c in spec["template"]["spec"].get("containers") or ()}:
            yield wrong(
                f"{where}.onExitCodes.containerName",
                named,
                "must be one of the container or initContainer names in the pod template",
            )
        if ("onPodConditions" in rule) == (codes is not None):
            yield wrong(where, "", "specifying one of OnExitCodes and OnPodConditions is required")
        if codes and codes.get("operator") == "In" and 0 in codes.get("values", ()):
            yield wrong(
                f"{where}.onExitCodes.values[{codes['values'].index(0)}]",
                0,
                "must not be 0 for the In operator",
            )


def _workload(obj: Obj) -> Iterator[Fault]:
    """What Deployment and ReplicaSet share."""
    spec = obj["spec"]
    if spec["replicas"] < 0:
        yield wrong("spec.replicas", spec["replicas"], NOT_NEGATIVE)
    selector, template = spec.get("selector"), spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is None:
        yield required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield wrong("spec.selector", selector, "empty selector is invalid for deployment")
    elif not matches(selector, labels):
        yield wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from _label_map(labels, "spec.template.labels")
    yield from pod_spec(template["spec"], "spec.template.spec")
    if template["spec"]["restartPolicy"] != "Always":
        yield unsupported("spec.template.spec.restartPolicy", template["spec"]["restartPolicy"], ("Always",))


def _deployment(deployment: Obj) -> Iterator[Fault]:
    strategy = deployment["spec"]["strategy"]
    if strategy["type"] not in {"Recreate", "RollingUpdate"}:
        yield unsupported("spec.strategy.type", strategy["type"], ("Recreate", "RollingUpdate"))
    if strategy["type"] == "Recreate" and "rollingUpdate" in strategy:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden_field("spec.strategy.rollingUpdate", detail)
    rolling = strategy.get("rollingUpdate") or {}
    if {str(rolling.get("maxSurge")), str(rolling.get("maxUnavailable"))} <= {"0", "0%"}:
        detail = "may not be 0 when `maxSurge` is 0"
        yield wrong("spec.strategy.rollingUpdate.maxUnavailable", rolling.get("maxUnavailable"), detail)
    yield from _workload(deployment)


def _service(service: Obj) -> Iterator[Fault]:
    spec = service["spec"]
    if spec["type"] != "ClusterIP":
        raise not_implemented(f"Service spec.type {spec['type']}")
    ports, names = spec.get("ports") or [], set()
    if not ports and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        where, number, name = f"spec.ports[{index}]", port.get("port"), port.get("name", "")
        if len(ports) > 1 and not name:
            yield required(f"{where}.name")
        elif name and name in names:
            yield Fault(f"{where}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"')
        names.add(name)
        if not isinstance(number, int) or not 0 < number < 65536:
            yield wrong(f"{where}.port", number or 0, "must be between 1 and 65535, inclusive")


def _data(obj: Obj) -> Iterator[Fault]:
    size = 0
    for key, value in (obj.get("data") or {}).items():
        size += len(value)
        if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
            text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            yield wrong(f"data[{key}]", key, text)
    if size > 1 << 20:
        yield Fault("data", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes")


def _quota(quota: Obj) -> Iterator[Fault]:
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        raise not_implemented("ResourceQuota scopes")
    for key, value in (spec.get("hard") or {}).items():
        try:
            amount = quantity(value)
        except ValueError:
            yield wrong(f"spec.hard[{key}]", value, QUANTITY_TEXT)
            continue
        if amount < 0:
            yield wrong(f"spec.hard[{key}]", value, NOT_NEGATIVE)
        if extended(key.removeprefix("requests.")) and amount.denominator != 1:
            yield wrong(f"spec.hard[{key}]", value, "must be an integer")


def _budget(budget: Obj) -> Iterator[Fault]:
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield wrong("spec", spec, "minAvailable and maxUnavailable cannot be both set")


def _claim(claim: Obj) -> Iterator[Fault]:
    spec = claim["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield required("spec.resources[storage]")


def _priority_class(priority: Obj) -> Iterator[Fault]:
    if priority["value"] > 10**9 and not priority["metadata"]["name"].startswith("system-"):
        detail = "maximum allowed value of a user defined priority is 1000000000"
        yield forbidden_field("value", detail)


_CREATE: dict[Kind, Callable[[Obj], Iterator[Fault]]] = {
    POD: _pod, JOB: _job, DEPLOYMENT: _deployment, REPLICA_SET: _workload, SERVICE: _service, CONFIG_MAP: _data,
    SECRET: _data, QUOTA: _quota, BUDGET: _budget, CLAIM: _claim, PRIORITY_CLASS: _priority_class,
    PYTORCH_JOB: pytorch_job, AUTOSCALER: autoscaler, SCALED_OBJECT: scaled_object,
}  # fmt: skip


def on_create(kind: Kind, obj: Obj) -> list[Fault]:
    faults = [*metadata(kind, obj), *(_CREATE[kind](obj) if kind in _CREATE else ())]
    if kind is PYTORCH_JOB and not faults:
        review(obj)
    return faults


def on_update(kind: Kind, old: Obj, new: Obj) -> list[Fault]:
    faults = on_create(kind, new)
    if kind is PYTORCH_JOB:
        faults += queue_change(old, new)
    if kind is SERVICE and old["spec"].get("clusterIPs") != new["spec"].get("clusterIPs"):
        faults.append(wrong("spec.clusterIPs[0]", new["spec"].get("clusterIPs"), "may not change once set"))
    for field in _frozen(kind, old):
        before, after = _dig(old, field), _dig(new, field)
        if before != after:
            faults.append(wrong(field, after, IMMUTABLE))
    if kind is POD and _without_mutable(old["spec"]) != _without_mutable(new["spec"]):
        faults.append(forbidden_field("spec", _POD_UPDATE))
    if kind in {CONFIG_MAP, SECRET} and old.get("immutable"):
        changed = [f for f in ("data", "binaryData") if old.get(f) != new.get(f)]
        faults += [forbidden_field(f, "field is immutable when `immutable` is set") for f in changed]
    return faults


_POD_UPDATE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
    "negative),`spec.tolerations` (only additions to existing tolerations)"
)


def _without_mutable(spec: Obj) -> Obj:
    rest = {
        k: v for k, v in spec.items() if k not in {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    }
    for part in ("containers", "initContainers"):
        rest[part] = [{k: v for k, v in c.items() if k != "image"} for c in spec.get(part) or ()]
    return rest


def _frozen(kind: Kind, old: Obj) -> tuple[str, ...]:
    if kind is JOB:
        suspended = old["spec"].get("suspend") and "startTime" not in old.get("status", {})
        always = ("spec.completions", "spec.selector", "spec.completionMode", "spec.podFailurePolicy")
        return (*always, "spec.template.spec.containers") if suspended else (*always, "spec.template")
    return {
        DEPLOYMENT: ("spec.selector",), REPLICA_SET: ("spec.selector",), SERVICE: ("spec.clusterIP",),
        PRIORITY_CLASS: ("value", "preemptionPolicy"), SECRET: ("type",), NODE: (), CLAIM: ("spec.accessModes", "spec.volumeMode"),
    }.get(kind, ())  # fmt: skip


def _dig(obj: Obj, field: str) -> Any:
    value: Any = obj
    for part in field.split("."):
        value = (value or {}).get(part)
    return value
