"""Pods and Services of a PyTorchJob's replicas, as the training operator writes and reads them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable

from devcluster.kinds import PYTORCH_JOB
from devcluster.objects import Obj, deleting, labels_of, name_of, owner_reference, phase_of, seconds
from devcluster.validation.training import CONTAINER, ROLES

SOURCE = "pytorchjob-controller"
PORT, PORT_NAME = 23456, "pytorchjob-port"
_PREFIX = "training.kubeflow.org/"
INDEX = f"{_PREFIX}replica-index"
_ROLE = f"{_PREFIX}replica-type"
_OPTIONAL = {"PET_MAX_RESTARTS": "maxRestarts", "PET_NPROC_PER_NODE": "nProcPerNode", "PET_RDZV_ID": "rdzvId"}


def with_defaults(spec: Obj) -> Obj:
    """The spec as the operator reads it; what it fills in is never stored."""
    spec = copy.deepcopy(spec)
    policy = spec.setdefault("runPolicy", {})
    policy.setdefault("cleanPodPolicy", "None")
    elastic = spec.get("elasticPolicy")
    if elastic is None or "nProcPerNode" not in elastic:
        spec.setdefault("nprocPerNode", "auto")
    for replica in spec["pytorchReplicaSpecs"].values():
        replica.setdefault("replicas", 1)
        replica.setdefault("restartPolicy", "OnFailure")
        ports = _main(replica).setdefault("ports", [])
        if not any(port.get("name") == PORT_NAME for port in ports):
            ports.append({"name": PORT_NAME, "containerPort": PORT})
    if elastic is not None:
        workers = spec["pytorchReplicaSpecs"]["Worker"]["replicas"]
        least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
        elastic["minReplicas"] = next(n for n in (least, most, workers) if n is not None)
        elastic["maxReplicas"] = next(n for n in (most, least, workers) if n is not None)
    return spec


def roles_of(spec: Obj) -> list[str]:
    return [role for role in ROLES if role in spec["pytorchReplicaSpecs"]]


def replica_name(job: str, role: str, index: int) -> str:
    """The name of a pod and of its Service."""
    return f"{job}-{role.lower()}-{index}"


def labels(job: Obj, role: str) -> dict[str, str]:
    """What all replicas of a role have in common."""
    return {f"{_PREFIX}job-name": name_of(job), f"{_PREFIX}operator-name": SOURCE, _ROLE: role.lower()}


def selector(job: Obj, role: str) -> str:
    """The same as text."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels(job, role).items()))


def by_index(objects: Iterable[Obj], role: str) -> dict[int, list[Obj]]:
    """The pods or Services of one role by their number."""
    groups: dict[int, list[Obj]] = {}
    for obj in objects:
        index = labels_of(obj).get(INDEX, "")
        if labels_of(obj).get(_ROLE) == role.lower() and index.isdigit():
            groups.setdefault(int(index), []).append(obj)
    return groups


def pod(job: Obj, spec: Obj, role: str, index: int) -> Obj:
    """The template with name, labels, environment and the restart policy of its replica.

    The operator's init container of workers is left out: it only waits until the master's name resolves, and devcluster
    starts no container before the names of its peers do.
    """
    replica = spec["pytorchReplicaSpecs"][role]
    template = replica["template"]
    source = template.get("metadata") or {}
    metadata = {k: v for k, v in source.items() if k in {"annotations", "finalizers"}}
    own = labels(job, role) | {INDEX: str(index)}
    if role == ("Master" if "Master" in spec["pytorchReplicaSpecs"] else "Worker") and index == 0:
        own[f"{_PREFIX}job-role"] = "master"
    env = _environment(job, spec, role, index)
    containers = [c | {"env": [*(c.get("env") or ()), *env]} for c in template["spec"]["containers"]]
    policy = replica["restartPolicy"]
    return {
        "metadata": metadata | {
            "name": replica_name(name_of(job), role, index), "labels": (source.get("labels") or {}) | own,
            "ownerReferences": [owner_reference(PYTORCH_JOB, job)],
        },
        "spec": template["spec"] | {
            "containers": containers, "restartPolicy": "Never" if policy == "ExitCode" else policy,
        },
    }  # fmt: skip


def _environment(job: Obj, spec: Obj, role: str, index: int) -> list[dict[str, str]]:
    replicas = spec["pytorchReplicaSpecs"]
    nodes = sum(replica["replicas"] for replica in replicas.values())
    per_node = spec.get("nprocPerNode")
    processes = int(per_node) if per_node and re.fullmatch("[+-]?[0-9]+", per_node) else 1
    env = {"PYTHONUNBUFFERED": "1"}
    if "Master" in replicas:
        port = _port(replicas["Master"])
        address = replica_name(name_of(job), "Master", 0)
        rank = str(index + (role == "Worker"))
        env |= {f"{prefix}MASTER_ADDR": address for prefix in ("", "PET_")}
        env |= {f"{prefix}MASTER_PORT": port for prefix in ("", "PET_")}
        env |= {"WORLD_SIZE": str(nodes * processes), "RANK": rank, "PET_NODE_RANK": rank}
    env |= {} if per_node is None else {"PET_NPROC_PER_NODE": per_node}
    env |= _rendezvous(job, spec) if "elasticPolicy" in spec else {"PET_NNODES": str(nodes)}
    return [{"name": name, "value": value} for name, value in env.items()]


def _rendezvous(job: Obj, spec: Obj) -> dict[str, str]:
    """What torchrun needs where the number of nodes may change."""
    policy = spec["elasticPolicy"]
    host = policy.get("rdzvHost") or replica_name(name_of(job), "Worker", 0)
    port = policy.get("rdzvPort") or _port(spec["pytorchReplicaSpecs"]["Worker"])
    env = {
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_BACKEND": policy.get("rdzvBackend", "c10d"),
        "PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}",
    }
    env |= {name: str(policy[field]) for name, field in _OPTIONAL.items() if field in policy}
    if policy.get("rdzvConf"):
        pairs = (f"{option.get('key', '')}={option.get('value', '')}" for option in policy["rdzvConf"])
        env["PET_RDZV_CONF"] = ",".join(pairs)
    return env | ({"PET_STANDALONE": ""} if policy.get("standalone") else {})


def _port(replica: Obj) -> str:
    """Where the replicas listen."""
    return next(str(p["containerPort"]) for p in _main(replica)["ports"] if p.get("name") == PORT_NAME)


def _main(replica: Obj) -> Obj:
    """The container that gets the port: `pytorch`, else the first."""
    containers: list[Obj] = replica["template"]["spec"]["containers"]
    return next((c for c in containers if c["name"] == CONTAINER), containers[0])


def service(job: Obj, spec: Obj, role: str, index: int) -> Obj:
    """Headless, with the ports of the container `pytorch`."""
    own = labels(job, role) | {INDEX: str(index)}
    ports = [
        {"port": port["containerPort"]} | ({"name": port["name"]} if port.get("name") else {})
        for port in _main(spec["pytorchReplicaSpecs"][role])["ports"]
    ]
    return {
        "metadata": {
            "name": replica_name(name_of(job), role, index), "labels": own,
            "ownerReferences": [owner_reference(PYTORCH_JOB, job)],
        },
        "spec": {"clusterIP": "None", "selector": own, "ports": ports},
    }  # fmt: skip


def count(pods: Iterable[Obj]) -> dict[str, int]:
    """`replicaStatuses` of one role: a running pod that is going counts as failed, a pending one not at all."""
    counts = {"active": 0, "succeeded": 0, "failed": 0}
    for one in pods:
        match phase_of(one):
            case "Running":
                counts["failed" if deleting(one) else "active"] += 1
            case "Succeeded":
                counts["succeeded"] += 1
            case "Failed":
                counts["failed"] += 1
    return counts


def exit_code(one: Obj) -> int | None:
    """The exit code of the container `pytorch`, once it has ended."""
    for status in one.get("status", {}).get("containerStatuses", ()):
        ended = status.get("state", {}).get("terminated")
        if status["name"] == CONTAINER and ended is not None:
            return int(ended["exitCode"])
    return None


def troubles(one: Obj) -> list[tuple[str, str]]:
    """Reasons and messages of the events that the operator repeats about a pod that has not ended."""
    status = one.get("status", {})
    containers = status.get("containerStatuses") or status.get("initContainerStatuses")
    if containers:
        return [
            trouble for container in containers for trouble in _container_troubles(name_of(one), container)
        ]
    newest = max(status.get("conditions", ()), key=lambda c: seconds(c["lastTransitionTime"]), default=None)
    if newest is None or newest["status"] == "True":
        return []
    message = f"Error pod {name_of(one)} condition message: {newest.get('message', '')}"
    return [(newest.get("reason", ""), message)]


def _container_troubles(pod_name: str, status: Obj) -> list[tuple[str, str]]:
    state = status.get("state", {})
    about, troubles = f"Error pod {pod_name} container {status['name']}", []
    ended, waits = state.get("terminated"), state.get("waiting")
    if ended is not None and ended["exitCode"]:
        text = f"{about} exitCode: {ended['exitCode']} terminated message: {ended.get('message', '')}"
        troubles.append((ended.get("reason", ""), text))
    if waits is not None and waits.get("message"):
        troubles.append((waits["reason"], f"{about} waiting message: {waits['message']}"))
    return troubles
