"""The training operator's webhook for PyTorchJobs.

A bad pod template passes: as with the real operator, the refusal of its pods shows as an event on the job.
"""

from __future__ import annotations

from collections.abc import Iterator

from devcluster.errors import Fault, forbidden_field, required, unsupported, webhook_denial, wrong
from devcluster.objects import Obj, dig

from .formats import label_1035

CONTAINER = "pytorch"
"""The container that the operator looks for."""
ROLES = ("Master", "Worker")
OPERATOR = "kubeflow.org/training-operator"
_MANAGERS = (OPERATOR, "kueue.x-k8s.io/multikueue")
_SPECS = "spec.pytorchReplicaSpecs"


def review(job: Obj) -> None:
    """Raise the operator's denial if there is one."""
    faults = [str(fault) for fault in _faults(job)]
    if faults:
        text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        raise webhook_denial("validator.pytorchjob.training-operator.kubeflow.org", text)


def queue_change(old: Obj, new: Obj) -> Iterator[Fault]:
    """The only field that may not change."""
    field = "spec.runPolicy.schedulingPolicy.queue"
    before, after = dig(old, field), dig(new, field)
    if before is not None and after is not None and before != after:
        yield wrong(field, after, f"{field} is immutable")


def _faults(job: Obj) -> Iterator[Fault]:
    name, spec = job["metadata"]["name"], job.get("spec") or {}
    if why := label_1035(name).replace("63 bytes", "63 characters"):
        yield wrong("metadata.name", name, f"should match: {why}")
    manager, specs = dig(spec, "runPolicy.managedBy"), spec.get("pytorchReplicaSpecs")
    if manager is not None and manager not in _MANAGERS:
        yield unsupported("spec.runPolicy.managedBy", manager, tuple(sorted(_MANAGERS)))
    if "elasticPolicy" in spec and "Worker" not in (specs or {}):
        yield required(f"{_SPECS}[Worker]", "must be configured if elastic policy is used")
    if "nProcPerNode" in (spec.get("elasticPolicy") or {}) and "nprocPerNode" in spec:
        yield forbidden_field("spec.elasticPolicy.nProcPerNode", "must not be used with spec.nprocPerNode")
    if specs is None:
        yield required(_SPECS, "must be required")
    for role, replica in (specs or {}).items():
        yield from _replica(role, replica, f"{_SPECS}[{role}]")


def _replica(role: str, replica: Obj, where: str) -> Iterator[Fault]:
    field, containers = f"{where}.template.spec.containers", dig(replica, "template.spec.containers") or []
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
