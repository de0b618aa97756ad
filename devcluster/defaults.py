"""The values that the API server fills in and clients see: those of `fields.yaml`, and those that depend on others."""

from __future__ import annotations

import base64
import copy
import ipaddress
from collections.abc import Callable
from typing import Any

from .errors import bad_request
from .kinds import Kind
from .objects import Obj, name_of, quantity, show_quantity, uid_of
from .schema import FIELDS, field_type, inner_type
from .validation.formats import QUANTITY_TEXT

JOB_NAME, JOB_UID = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"
_PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALE_UP = {
    "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [{**_PERCENT, "type": "Pods", "value": 4}, _PERCENT],
}  # fmt: skip
_SCALE_DOWN = {"selectPolicy": "Max", "policies": [_PERCENT]}
_CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
_NODE_INFO = {
    **dict.fromkeys(("bootID", "machineID", "systemUUID", "kernelVersion", "osImage", "kubeProxyVersion"), ""),
    "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.3", "containerRuntimeVersion": "devcluster",
}  # fmt: skip


def fill(kind: Kind, obj: Obj) -> None:
    """Fill `obj` in place."""
    _walk(kind.name, obj, custom=kind.custom)


def _walk(type_: str, value: Any, *, custom: bool) -> None:
    if isinstance(value, list):
        for item in value:
            _walk(inner_type(type_), item, custom=custom)
    elif isinstance(value, dict):
        for name, rules in FIELDS.get(type_, {}).items():
            for word in ("schema_default",) if custom else ("schema_default", "default"):
                if word in rules:
                    value.setdefault(name, copy.deepcopy(rules[word]))
        for key, item in value.items():
            _walk(field_type(type_, key), item, custom=custom)
        if not custom and type_ in _DEPENDING:
            _DEPENDING[type_](value)


def _pod(pod: Obj) -> None:
    pod["spec"].setdefault("enableServiceLinks", True)
    pod["status"].setdefault("qosClass", _qos(pod["spec"]))


def _qos(spec: Obj) -> str:
    shares = [(c.get("resources") or {}) for c in spec.get("containers") or ()]
    compute = ("cpu", "memory")
    asked = [{k: v for k, v in (r.get("requests") or {}).items() if k in compute} for r in shares]
    limited = [{k: v for k, v in (r.get("limits") or {}).items() if k in compute} for r in shares]
    if not any(asked) and not any(limited):
        return "BestEffort"
    return "Guaranteed" if all(len(one) == 2 for one in limited) and asked == limited else "Burstable"


def _pod_spec(spec: Obj) -> None:
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def _container(container: Obj) -> None:
    image, resources = str(container.get("image", "")), container["resources"]
    tag = image.rpartition("/")[2].partition(":")[2]
    container.setdefault(
        "imagePullPolicy", "IfNotPresent" if tag not in {"", "latest"} or "@" in image else "Always"
    )
    if resources.get("limits"):
        resources["requests"] = resources["limits"] | (resources.get("requests") or {})


def _volume(volume: Obj) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def _job_spec(spec: Obj) -> None:
    if "parallelism" not in spec:
        spec.setdefault("completions", 1)
    spec.setdefault("parallelism", 1)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )


def own_job_pods(job: Obj) -> None:
    """Selector and labels that only the server may set: they carry the Job's uid."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = uid_of(job), name_of(job)
    labels = {JOB_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    metadata = spec["template"].setdefault("metadata", {})
    metadata["labels"] = (metadata.get("labels") or {}) | labels
    spec["selector"] = {"matchLabels": {JOB_UID: uid}}
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(metadata["labels"])


def _strategy(strategy: Obj) -> None:
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = {"maxSurge": "25%", "maxUnavailable": "25%"} | rolling


def _service_port(port: Obj) -> None:
    port.setdefault("targetPort", port.get("port"))


def cluster_ip(serial: int) -> str:
    """A pretended address from the usual service range; nothing listens there."""
    return str(ipaddress.ip_address("10.96.0.0") + 10 + serial % 65000)


def _secret(secret: Obj) -> None:
    plain = secret.pop("stringData", None) or {}
    coded = {k: base64.b64encode(v.encode()).decode() for k, v in plain.items()}
    if coded:
        secret["data"] = (secret.get("data") or {}) | coded


def _namespace(namespace: Obj) -> None:
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = namespace["metadata"].get("name", "")


def _network_policy(spec: Obj) -> None:
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if "egress" in spec else ["Ingress"])


def _autoscaler_spec(spec: Obj) -> None:
    spec["metrics"] = spec.get("metrics") or [{"type": "Resource", "resource": copy.deepcopy(_CPU)}]


def _metric_target(target: Obj) -> None:
    target |= {name: _readable(target[name]) for name in ("value", "averageValue") if name in target}


def _readable(value: object) -> str:
    """A quantity as text; 400 where it is none."""
    try:
        return show_quantity(quantity(str(value)))
    except ValueError as error:
        what = 'HorizontalPodAutoscaler in version "v2" cannot be handled as a HorizontalPodAutoscaler'
        raise bad_request(f"{what}: {QUANTITY_TEXT}") from error


def _behavior(behavior: Obj) -> None:
    for way, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
        behavior[way] = copy.deepcopy(rules) | behavior.get(way, {})


def _node(node: Obj) -> None:
    status = node["status"]
    status.setdefault("allocatable", dict(status.get("capacity") or {}))
    status["nodeInfo"] = _NODE_INFO | status.get("nodeInfo", {})


_DEPENDING: dict[str, Callable[[Obj], None]] = {
    "Container": _container, "DeploymentStrategy": _strategy, "HorizontalPodAutoscalerBehavior": _behavior,
    "HorizontalPodAutoscalerSpec": _autoscaler_spec, "JobSpec": _job_spec, "MetricTarget": _metric_target,
    "Namespace": _namespace, "NetworkPolicySpec": _network_policy, "Node": _node, "Pod": _pod, "PodSpec": _pod_spec,
    "Secret": _secret, "ServicePort": _service_port, "Volume": _volume,
}  # fmt: skip
"""By type, after the fields within are filled."""
