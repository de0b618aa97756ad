"""The pod that runs and endpoints have in common, as pure functions from a spec and a placement to JSON.

Every pod passes Pod Security `restricted`, unless the request wants user 0; then it passes `baseline`. No container of
either keeps a capability of the kernel.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster import labels as label_names
from cluster.kinds import ObjectRef
from workloads.placement import Placement
from workloads.podspec import git_source
from workloads.podspec.specs import ContainerSpec, EnvVar

Manifest = dict[str, Any]

TOKEN_KEY = "token"  # noqa: S105 - a key's name
"""The key of the run token in the Secret that `Placement.run_token_secret` names."""
CAPACITY_ANNOTATION = "mlportal.dev/capacity-type"
"""On every pod, so that its end shows whether spot capacity was taken back."""
DO_NOT_DISRUPT: Mapping[str, str] = {"karpenter.sh/do-not-disrupt": "true"}
UNBUFFERED: Mapping[str, str] = {"name": "PYTHONUNBUFFERED", "value": "1"}
"""Otherwise what a program printed comes after the traceback that ended it, or never where it is killed."""
_FILES_VOLUME = "source"
_SHM_VOLUME = "shm"


@dataclass(frozen=True, slots=True)
class ManifestSet:
    """The objects of one attempt or revision: `primary` is made first and owns the `dependants`.

    The dependants need the primary's uid (see `owned_by`). A pod that mounts a dependant before it exists
    waits in ContainerCreating, so the order harms nothing.
    """

    primary: Manifest
    dependants: tuple[Manifest, ...] = ()
    suspend_path: tuple[str, ...] | None = None
    """Field by which the primary can be made without starting; None where it starts at once."""
    replicas_at_first: int | None = None
    """`spec.replicas` of a primary that is made anew; from then on the field is its scaler's. None: not left to one."""
    replicas_most: int | None = None
    """The most to which its scaler may set that field; `replicas_at_first` is the least."""
    retired: tuple[ObjectRef, ...] = ()
    """Objects that an earlier version may have had and this one must not."""

    def all(self) -> list[Manifest]:
        """Every object, the primary first."""
        return [self.primary, *self.dependants]


@dataclass(frozen=True, slots=True)
class ClaimMount:
    claim: str
    path: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodParts:
    """What a pod has besides its spec and its placement."""

    spec: ContainerSpec
    container_name: str
    claims: Sequence[ClaimMount]
    files_config_map: str | None
    """Name of the ConfigMap with the source files; set exactly when the spec has files."""
    portal_env: Sequence[Manifest] = ()
    """EnvVars of the portal; they come first, so that the user's may refer to them as $(NAME)."""
    default_env: Sequence[Manifest] = ()
    """EnvVars that are only good defaults: left out where the user's own have the name."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: int
    """From SIGTERM to SIGKILL."""
    restart_policy: str
    near: str | None = None
    """Label of nodes by which the workload's pods are to be near each other; a hint to the scheduler."""
    subdomain: str | None = None
    """Name of the headless Service under which the pods of a gang find each other."""
    container_extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the container: ports, probes."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the pod alone, beside those that all objects have."""
    volumes: Sequence[Manifest] = ()
    """Besides those that the spec asks for; `mounts` are the container's of them."""
    mounts: Sequence[Manifest] = ()
    init_containers: Sequence[Manifest] = ()
    """What runs before the container, after the code was brought. One that names no mounts reads what the container
    has mounted."""


def pod_template(parts: PodParts, placement: Placement) -> Manifest:
    """The pod template. User strings stay list items and values: none becomes part of a shell line."""
    annotations = {**placement.annotations, **parts.annotations, CAPACITY_ANNOTATION: placement.capacity_type}
    return {
        "metadata": {
            "labels": {**all_labels(parts.spec, placement), **parts.labels},
            "annotations": annotations,
        },
        "spec": _pod_spec(parts, placement),
    }


def _pod_spec(parts: PodParts, placement: Placement) -> Manifest:
    volumes, mounts = _volumes(parts)
    volumes, mounts = [*volumes, *parts.volumes], [*mounts, *parts.mounts]
    pod: Manifest = {
        "restartPolicy": parts.restart_policy,
        "serviceAccountName": placement.service_account,
        "automountServiceAccountToken": False,
        # A namespace with many Services would add hundreds of variables, with names the user did not choose.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": parts.grace_seconds,
        "securityContext": pod_security(parts.spec.run_as_user),
        "containers": [_container(parts, placement, mounts)],
    }
    init_containers = (_with_mounts(container, mounts) for container in parts.init_containers)
    if init := [*_git_containers(parts.spec, placement), *init_containers]:
        pod["initContainers"] = init
    if placement.tolerations:
        pod["tolerations"] = [dict(toleration) for toleration in placement.tolerations]
    affinity = {**_node_affinity(placement.node_terms), **_pod_affinity(parts.near, placement)}
    if affinity:
        pod["affinity"] = affinity
    if placement.priority_class:
        pod["priorityClassName"] = placement.priority_class
    if parts.subdomain is not None:
        pod["subdomain"] = parts.subdomain
    if parts.spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in parts.spec.image_pull_secrets]
    if volumes:
        pod["volumes"] = volumes
    return pod


def _git_containers(spec: ContainerSpec, placement: Placement) -> list[Manifest]:
    if spec.source is None or spec.source.git is None:
        return []
    return git_source.fetch_containers(
        spec.source.git,
        image=placement.git_image,
        mount=mount_of(_FILES_VOLUME, spec.source.path, read_only=False),
        common=helper_fields(spec),
    )


def _with_mounts(container: Manifest, mounts: Sequence[Manifest]) -> Manifest:
    if "volumeMounts" in container or not mounts:
        return dict(container)
    return {**container, "volumeMounts": [{**mount, "readOnly": True} for mount in mounts]}


def helper_fields(spec: ContainerSpec) -> Manifest:
    """Fields of a container that ends before the user's starts: it may use what the pod has anyway, except GPUs."""
    return {
        "resources": _resources(replace(spec, gpus_per_replica=0, extra_resources={}), None),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _container(parts: PodParts, placement: Placement, mounts: list[Manifest]) -> Manifest:
    spec = parts.spec
    container: Manifest = {
        "name": parts.container_name,
        "image": spec.image,
        "resources": _resources(spec, placement.resource_name),
        "securityContext": container_security(),
        # A failed container's last lines stay in its status, even if no one read the log in time.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if spec.command:
        container["command"] = list(spec.command)
    if spec.args:
        container["args"] = list(spec.args)
    if spec.effective_working_dir:
        container["workingDir"] = spec.effective_working_dir
    own_names = {item.name for item in spec.env}
    defaults = [dict(item) for item in parts.default_env if item["name"] not in own_names]
    env = [*map(dict, parts.portal_env), *defaults, *map(_env_var, spec.env)]
    if env:
        container["env"] = env
    if mounts:
        container["volumeMounts"] = mounts
    return {**container, **copy.deepcopy(dict(parts.container_extra))}


def _env_var(item: EnvVar) -> Manifest:
    if item.secret is None:
        return item.to_json()
    return {"name": item.name, "valueFrom": {"secretKeyRef": {"name": item.secret, "key": item.key}}}


def _resources(spec: ContainerSpec, resource_name: str | None) -> Manifest:
    requests = {"cpu": spec.cpu.request, "memory": spec.memory.request}
    limits = {"cpu": spec.cpu.limit, "memory": spec.memory.limit}
    if spec.ephemeral_storage is not None:
        requests["ephemeral-storage"] = spec.ephemeral_storage.request
        limits["ephemeral-storage"] = spec.ephemeral_storage.limit
    if spec.gpus_per_replica:
        if resource_name is None:
            raise ValueError(f"{spec.name} asks for GPUs, but its placement names no resource")
        requests[resource_name] = limits[resource_name] = str(spec.gpus_per_replica)
    for name, units in spec.extra_resources.items():
        requests[name] = limits[name] = str(units)
    return {"requests": requests, "limits": limits}


def pod_security(user: int) -> Manifest:
    """Of every pod: its files belong to the user's own group, so that a later pod of the same user may read them."""
    profile = {"type": "RuntimeDefault"}
    if user == 0:
        return {"runAsUser": 0, "seccompProfile": profile}
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": profile,
    }


def container_security() -> Manifest:
    """Of every container, whatever its user: root without capabilities owns what root owns, and no more."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _node_affinity(terms: Sequence[Mapping[str, Any]]) -> Manifest:
    if not terms:
        return {}
    required = {"nodeSelectorTerms": [{"matchExpressions": copy.deepcopy(list(terms))}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _pod_affinity(near: str | None, placement: Placement) -> Manifest:
    """Preferred, not required: an admitted workload must not wait for a better place."""
    if near is None:
        return {}
    own = {"matchLabels": workload_selector(placement)}
    wish = {"weight": 100, "podAffinityTerm": {"labelSelector": own, "topologyKey": near}}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def _volumes(parts: PodParts) -> tuple[list[Manifest], list[Manifest]]:
    """(volumes, mounts). A claim that is mounted twice is one volume."""
    spec = parts.spec
    volumes: list[Manifest] = []
    mounts: list[Manifest] = []
    names: dict[str, str] = {}
    for mount in parts.claims:
        if mount.claim not in names:
            names[mount.claim] = f"claim-{len(names)}"
            source = {"persistentVolumeClaim": {"claimName": mount.claim}}
            volumes.append({"name": names[mount.claim], **source})
        mounts.append(mount_of(names[mount.claim], mount.path, read_only=mount.read_only))
    for index, config_map in enumerate(spec.config_maps):
        volumes.append({"name": f"config-{index}", "configMap": {"name": config_map.name}})
        mounts.append(mount_of(f"config-{index}", config_map.path, read_only=True))
    if spec.source is not None and spec.source.git is not None:
        volumes.append({"name": _FILES_VOLUME, "emptyDir": {}})
        mounts.append(mount_of(_FILES_VOLUME, spec.source.path, read_only=False))
    elif spec.source is not None and parts.files_config_map:
        volumes.append({"name": _FILES_VOLUME, "configMap": {"name": parts.files_config_map}})
        mounts.append(mount_of(_FILES_VOLUME, spec.source.path, read_only=True))
    if spec.shm is not None:
        volumes.append({"name": _SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": spec.shm}})
        mounts.append(mount_of(_SHM_VOLUME, "/dev/shm", read_only=False))  # noqa: S108 - a mount point
    return volumes, mounts


def mount_of(name: str, path: str, *, read_only: bool) -> Manifest:
    """One item of volumeMounts."""
    mount: Manifest = {"name": name, "mountPath": path}
    return {**mount, "readOnly": True} if read_only else mount


def all_labels(spec: ContainerSpec, placement: Placement) -> dict[str, str]:
    """The user's labels, and the portal's, which win."""
    return {**spec.labels, **placement.labels}


def metadata(name: str, spec: ContainerSpec, placement: Placement) -> Manifest:
    return {"name": name, "namespace": placement.namespace, "labels": all_labels(spec, placement)}


def workload_selector(placement: Placement) -> dict[str, str]:
    """Labels that select the workload's pods over all its attempts."""
    return {label_names.WORKLOAD_ID: placement.workload_id}


def run_environment(placement: Placement, checkpoint_dir: str | None) -> list[Manifest]:
    """The variables that tell a run where the portal is, who it is, and where it left off."""
    env: list[Manifest] = [
        {"name": "PORTAL_URL", "value": placement.portal_url},
        {"name": "PORTAL_RUN_ID", "value": placement.workload_id},
    ]
    if placement.run_token_secret:
        reference = {"name": placement.run_token_secret, "key": TOKEN_KEY}
        env.append({"name": "PORTAL_RUN_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    if checkpoint_dir:
        env.append({"name": "PORTAL_CHECKPOINT_DIR", "value": checkpoint_dir})
    if placement.resume_from:
        env.append({"name": "PORTAL_RESUME_FROM", "value": placement.resume_from})
    return env


def tracking_environment(spec: ContainerSpec, placement: Placement) -> list[Manifest]:
    """Environment variables of the MLflow client: the server's address, and the name and tags of its runs."""
    if not placement.mlflow_uri:
        return []
    tags = {
        "mlflow.runName": f"{spec.name}-{placement.attempt}",
        "mlportal.team": placement.team_slug,
        "mlportal.run_id": placement.workload_id,
        "mlportal.attempt": str(placement.attempt),
    }
    return [
        {"name": "MLFLOW_TRACKING_URI", "value": placement.mlflow_uri},
        {"name": "MLFLOW_EXPERIMENT_NAME", "value": placement.team_slug},
        {"name": "MLFLOW_RUN_CONTEXT", "value": json.dumps(tags)},
    ]


def files_config_map(name: str, spec: ContainerSpec, placement: Placement) -> Manifest | None:
    """The ConfigMap of the source files; None where the spec brings no files. It never changes once made."""
    if spec.source is None or not spec.source.files:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, spec, placement),
        "immutable": True,
        "data": dict(spec.source.files),
    }


def owned_by(manifest: Manifest, owner: Mapping[str, Any]) -> Manifest:
    """A copy of `manifest` that the cluster removes together with `owner`.

    `owner` is the object as the API server answered it to a get, create or apply; items of a list lack
    apiVersion and kind and will not do. Both must be in one namespace.
    """
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    owned = copy.deepcopy(manifest)
    owned["metadata"]["ownerReferences"] = [reference]
    return owned
