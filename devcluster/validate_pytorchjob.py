"""What is refused of a PyTorchJob: by the schema of its CustomResourceDefinition, then by the training operator's webhook.

A bad pod template passes both: as with the real operator, the refusal of its pods shows as an event on the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .errors import ApiError, Fault, duplicate, forbidden_field, not_implemented, required, unsupported, wrong
from .objects import Obj
from .schema import MERGE_KEYS, UNCHECKED, field_type, merge_key
from .validate_pod import pod_spec

CONTAINER = "pytorch"
"""The container that the operator looks for."""
ROLES = ("Master", "Worker")
OPERATOR = "kubeflow.org/training-operator"
MANAGERS = (OPERATOR, "kueue.x-k8s.io/multikueue")

_SPECS = "spec.pytorchReplicaSpecs"
_REQUIRED = {
    "PyTorchJobSpec": ("pytorchReplicaSpecs",), "PodSpec": ("containers",), "Container": ("name",), "EnvVar": ("name",),
    "ContainerPort": ("containerPort",), "VolumeMount": ("mountPath", "name"), "Volume": ("name",),
    "PersistentVolumeClaimVolumeSource": ("claimName",), "SecretKeySelector": ("key",), "ConfigMapKeySelector": ("key",),
}  # fmt: skip
_AMOUNTS = ("limits", "requests", "minResources")
_AMOUNT = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|"
    r"(\.[0-9]+))))?$"
)
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


# The schema


def pytorch_job(job: Obj) -> Iterator[Fault]:
    """What the definition's schema refuses; 501 for what devcluster cannot run."""
    missing = list(_missing("PyTorchJobSpec", job["spec"], "spec")) if "spec" in job else []
    if missing:
        yield from missing
        if any(fault.reason == "FieldValueRequired" for fault in missing):
            yield UNCHECKED
        return
    yield from _repeated("PyTorchJobSpec", job.get("spec", {}), "spec")
    for role, replica in _replicas(job).items():
        pod = (replica.get("template") or {}).get("spec") or {}
        # Only for its 501: what else is wrong with it shows when the pod is made.
        list(pod_spec(pod, f"{_SPECS}.{role}.template.spec"))
    if "metrics" in ((job.get("spec") or {}).get("elasticPolicy") or {}):
        raise not_implemented("PyTorchJob spec.elasticPolicy.metrics (an autoscaler)")


def _replicas(job: Obj) -> dict[str, Obj]:
    found: dict[str, Obj] = (job.get("spec") or {}).get("pytorchReplicaSpecs") or {}
    return found


def _missing(type_: str, value: Any, path: str) -> Iterator[Fault]:
    """Required fields that are absent, and amounts that are none."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _missing(type_[5:-1], item, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from (required(f"{path}.{name}") for name in _REQUIRED.get(type_, ()) if name not in value)
        for key, item in value.items():
            if key in _AMOUNTS and isinstance(item, dict):
                yield from _amounts(item, f"{path}.{key}")
            else:
                yield from _missing(field_type(type_, key), item, f"{path}.{key}")


def _amounts(values: Obj, path: str) -> Iterator[Fault]:
    for key, value in values.items():
        if not re.fullmatch(_AMOUNT[1:-1], str(value)):
            yield wrong(f"{path}.{key}", value, f"{path}.{key} in body should match '{_AMOUNT}'")


def _repeated(type_: str, value: Any, path: str) -> Iterator[Fault]:
    """Items of a list that have the same key."""
    if isinstance(value, list):
        seen = set()
        for index, item in enumerate(value):
            key = merge_key(type_, item)
            if key in seen and type_ in MERGE_KEYS:
                yield duplicate(f"{path}[{index}]", item)
            seen.add(key)
            yield from _repeated(type_[5:-1], item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = f"{path}[{key}]" if type_.startswith("Dict[") else f"{path}.{key}"
            yield from _repeated(field_type(type_, key), item, inner)


def queue_change(old: Obj, new: Obj) -> Iterator[Fault]:
    """The only field that may not change."""
    before, after = (_policy(job).get("schedulingPolicy", {}).get("queue") for job in (old, new))
    if before is not None and after is not None and before != after:
        field = "spec.runPolicy.schedulingPolicy.queue"
        yield wrong(field, after, f"{field} is immutable")


def _policy(job: Obj) -> Obj:
    policy: Obj = (job.get("spec") or {}).get("runPolicy") or {}
    return policy


# The webhook


def review(job: Obj) -> None:
    """Raise the operator's denial if there is one."""
    faults = [str(fault) for fault in _webhook(job)]
    if faults:
        text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        webhook = "validator.pytorchjob.training-operator.kubeflow.org"
        raise ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {text}')


def _webhook(job: Obj) -> Iterator[Fault]:
    name, policy, spec = job["metadata"]["name"], _policy(job), job.get("spec") or {}
    texts = ["must be no more than 63 characters"] if len(name) > 63 else []
    texts += [] if _NAME.fullmatch(name) else [_NAME_TEXT]
    if texts:
        yield wrong("metadata.name", name, f"should match: {','.join(texts)}")
    manager = policy.get("managedBy")
    if manager is not None and manager not in MANAGERS:
        yield unsupported("spec.runPolicy.managedBy", manager, MANAGERS)
    if "elasticPolicy" in spec:
        yield from _elastic(spec)
    if "pytorchReplicaSpecs" not in spec:
        yield required(_SPECS, "must be required")
    for role, replica in _replicas(job).items():
        yield from _replica(role, replica)


def _elastic(spec: Obj) -> Iterator[Fault]:
    if "Worker" not in (spec.get("pytorchReplicaSpecs") or {}):
        yield required(f"{_SPECS}[Worker]", "must be configured if elastic policy is used")
    if "nProcPerNode" in spec["elasticPolicy"] and "nprocPerNode" in spec:
        yield forbidden_field("spec.elasticPolicy.nProcPerNode", "must not be used with spec.nprocPerNode")


def _replica(role: str, replica: Obj) -> Iterator[Fault]:
    where = f"{_SPECS}[{role}]"
    field = f"{where}.template.spec.containers"
    containers = ((replica.get("template") or {}).get("spec") or {}).get("containers") or []
    if role not in ROLES:
        yield unsupported(where, role, ROLES)
    if not containers:
        yield required(field, "must be specified")
    for index, container in enumerate(containers):
        if not container.get("image"):
            yield required(f"{field}[{index}].image", "must be required")
    if CONTAINER not in {container["name"] for container in containers}:
        yield required(field, f"must have at least one container with name {CONTAINER}")
    count = replica.get("replicas")
    if role == "Master" and count != 1:
        yield forbidden_field(f"{where}.replicas", "must be 1")
    elif role != "Master" and count is not None and count < 1:
        yield forbidden_field(f"{where}.replicas", "must be at least 1")
