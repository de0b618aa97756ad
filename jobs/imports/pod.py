"""A pod template, field by field. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import FieldProblem
from jobs.imports import placing
from jobs.imports.reading import Fields
from tenancy.namespace_manifests import SERVICE_ACCOUNT, priority_class
from workloads.placement import FlavorFacts, NodeFacts
from workloads.podspec import grammar
from workloads.podspec.pod_template import UNBUFFERED
from workloads.podspec.specs import DEFAULT_USER, Json
from workloads.states import Priority

SHM = "/dev/shm"  # noqa: S108 - a mount point
CHECKPOINT_DIR = "PORTAL_CHECKPOINT_DIR"
AMOUNTS: Mapping[str, str] = {
    "cpu": "cpu",
    "memory": "memory",
    "ephemeral-storage": "ephemeral_storage",
}
OWN_LABELS = frozenset(
    {"job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"}
)
OWN_DOMAINS = ("mlportal.dev/", "app.kubernetes.io/")
OWN_ANNOTATIONS = (
    "mlportal.dev/",
    "karpenter.sh/do-not-disrupt",
    "kubectl.kubernetes.io/",
    "batch.kubernetes.io/",
)
BY_THE_PORTAL = "The portal sets it itself."
POD_DEFAULTS: Mapping[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "hostNetwork": False,
    "hostPID": False,
    "hostIPC": False,
    "shareProcessNamespace": False,
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
}
WHY_DROPPED: Mapping[str, str] = {
    "restartPolicy": "A pod is never restarted: the portal starts the next attempt, as often as max_retries allows.",
    "terminationGracePeriodSeconds": "The grace period is a setting of the platform.",
}


@dataclass(frozen=True, slots=True)
class Known:
    """The facts of this platform that a manifest is read against."""

    flavors: Sequence[FlavorFacts] = ()
    nodes: Sequence[NodeFacts] = ()
    teams: Mapping[str, str] = field(default_factory=dict)
    """Slug of the reader's team by its namespace."""


def read(
    template: Fields, known: Known, *, of_portal: frozenset[str]
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """The part of a request that the pod template says, and what the user has to decide yet.

    `of_portal` names variables that this kind of object gives its pods anyway.
    """
    body: dict[str, Any] = {"labels": labels(template.object("metadata"))}
    pod = template.object("spec")
    pod.pass_over(**POD_DEFAULTS)
    for name, why in WHY_DROPPED.items():
        pod.drop(name, why)
    if pod.rest.get("serviceAccountName") in {"default", SERVICE_ACCOUNT}:
        pod.drop("serviceAccountName", "Pods of runs have an account without rights.")
        pod.drop("serviceAccount", BY_THE_PORTAL)
    problems = _containers(pod, known, body, of_portal)
    body["image_pull_secrets"] = [
        name for secret in pod.items("imagePullSecrets") if (name := secret.take("name", str))
    ]
    _priority(pod, body)
    return body, problems


def labels(metadata: Fields) -> dict[str, str]:
    """The user's own labels; those that the portal or a controller sets are left out, those of others are refused."""
    written, own = metadata.object("labels"), {}
    for name in list(written.names()):
        if name in OWN_LABELS or name.startswith(OWN_DOMAINS):
            written.drop(name, BY_THE_PORTAL)
        elif (value := written.take(name, str)) is not None:
            fault = grammar.label(name, value)
            if fault is not None:
                metadata.notes.refuse(written.at(name), fault.message, fault.code)
            own[name] = value
    noted = metadata.object("annotations")
    for name in list(noted.names()):
        if name.startswith(OWN_ANNOTATIONS):
            noted.drop(name, BY_THE_PORTAL)
    metadata.pass_over(creationTimestamp=None)
    return own


def _containers(
    pod: Fields, known: Known, body: dict[str, Any], of_portal: frozenset[str]
) -> list[FieldProblem]:
    containers = pod.items("containers")
    for other in containers[1:]:
        pod.notes.refuse(other.path, "A pod of a run has one container.")
        other.rest = {}
    if not containers:
        pod.notes.refuse(pod.at("containers"), "There is no container.", "required")
        containers = [Fields({}, pod.at("containers.0"), pod.notes)]
    container = containers[0]
    container.drop("name", BY_THE_PORTAL)
    for name, key in (("image", "image"), ("workingDir", "working_dir")):
        body[key] = container.take(name, str)
    body["command"], body["args"] = container.texts("command"), container.texts("args")
    _environment(container, body, of_portal)
    problems = _resources(container, pod, known, body)
    problems += _volumes(container, pod, body)
    _security(container, pod, body)
    for port in container.items("ports"):
        pod.notes.drop(port.path, "Pods of one run reach each other on every port.")
        port.rest = {}
    container.drop("imagePullPolicy", "Whether an image is pulled again is the cluster's default.")
    container.drop("terminationMessagePolicy", BY_THE_PORTAL)
    container.pass_over(terminationMessagePath="/dev/termination-log", stdin=False, tty=False)
    return problems


def _environment(container: Fields, body: dict[str, Any], of_portal: frozenset[str]) -> None:
    env: list[dict[str, Any]] = []
    for variable in container.items("env"):
        name = variable.take("name", str) or ""
        if name == CHECKPOINT_DIR and isinstance(variable.rest.get("value"), str):
            body["checkpoint"] = {"path": variable.take("value", str)}
        elif (
            name in of_portal
            or name.startswith(grammar.PORTAL_ENV_PREFIX)
            or {"name": name, **variable.rest} == UNBUFFERED
        ):
            variable.rest = {}
            container.notes.drop(variable.path, f"{name}: {BY_THE_PORTAL}")
        elif "valueFrom" in variable.rest:
            secret = variable.object("valueFrom").object("secretKeyRef")
            secret.pass_over(optional=False)
            env.append({"name": name, "secret": secret.take("name", str), "key": secret.take("key", str)})
        else:
            env.append({"name": name, "value": variable.take("value", str) or ""})
    body["env"] = env


def _resources(container: Fields, pod: Fields, known: Known, body: dict[str, Any]) -> list[FieldProblem]:
    resources = container.object("resources")
    requests, limits = resources.object("requests"), resources.object("limits")
    for name, key in AMOUNTS.items():
        amounts = {
            side: value
            for side, of in (("request", requests), ("limit", limits))
            if (value := of.quantity(name))
        }
        if amounts:
            body[key] = amounts if len(set(amounts.values())) == 2 else next(iter(amounts.values()))
        if "request" in amounts and "limit" not in amounts:
            container.notes.drop(limits.at(name), "There always is a limit: here it is the request.")
    units = _units(requests, limits)
    gpus = {name: count for name, count in units.items() if placing.is_gpu(name, known.flavors)}
    body["extra_resources"] = {name: count for name, count in units.items() if name not in gpus and count}
    for extra in sorted(gpus)[1:]:
        container.notes.refuse(limits.at(extra), "A pod of a run has units of one flavor.")
    resource = min(gpus, default=None)
    wanted = placing.wishes(pod)
    choice = placing.choose(resource, wanted, known.flavors, known.nodes)
    placing.check(pod, wanted, choice, known.nodes)
    body["gpus_per_replica"] = gpus[resource] if resource else 0
    if choice.flavor is not None:
        body["flavor"], body["capacity"] = choice.flavor.name, choice.capacity
    return [choice.problem] if choice.problem else []


def _units(requests: Fields, limits: Fields) -> dict[str, int]:
    """Whole units of extended resources, whose request is their limit."""
    units: dict[str, int] = {}
    for side in (requests, limits):
        for name in [resource for resource in side.names() if "/" in resource]:
            text = side.quantity(name) or ""
            if not text.isdecimal() or len(text) > 9:
                side.notes.refuse(side.at(name), "Give a whole number of units.", "invalid")
            elif units.setdefault(name, int(text)) != int(text):
                side.notes.refuse(side.at(name), "Request and limit of such a resource are equal.", "invalid")
    return units


def _volumes(container: Fields, pod: Fields, body: dict[str, Any]) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    volumes = {volume.take("name", str): volume for volume in pod.items("volumes")}
    claims = {name: source for name, volume in volumes.items() if (source := _claim(volume))}
    mounted: set[str | None] = set()
    body["volumes"], body["config_maps"] = [], []
    for mount in container.items("volumeMounts"):
        name, path = mount.take("name", str), mount.take("mountPath", str) or ""
        read_only = bool(mount.take("readOnly", bool))
        mount.pass_over(recursiveReadOnly="Disabled")
        volume = volumes.get(name)
        if volume is None:
            container.notes.refuse(mount.path, f"There is no volume {name}.", "invalid")
        elif name in claims:
            claim, always = claims[name]
            body["volumes"].append({"claim": claim, "path": path, "read_only": read_only or always})
        elif name in mounted:
            container.notes.refuse(mount.path, "Of volumes only a claim is mounted twice.")
        elif "emptyDir" in volume.rest and path == SHM:
            _shared_memory(volume.object("emptyDir"), body, problems)
        elif "configMap" in volume.rest:
            config = volume.object("configMap")
            config.pass_over(defaultMode=420, optional=False)
            body["config_maps"].append({"name": config.take("name", str), "path": path})
        mounted.add(name)
    for name, volume in volumes.items():
        if name not in mounted:
            volume.rest = {}
            pod.notes.drop(volume.path, f"Volume {name} is mounted nowhere.")
    return problems


def _claim(volume: Fields) -> tuple[str | None, bool] | None:
    """The name of the claim that the volume is, and whether it is only read; None where it is something else."""
    if not volume.rest.get("persistentVolumeClaim"):
        return None
    claim = volume.object("persistentVolumeClaim")
    return claim.take("claimName", str), bool(claim.take("readOnly", bool))


def _shared_memory(empty: Fields, body: dict[str, Any], problems: list[FieldProblem]) -> None:
    if empty.rest.get("medium") != "Memory":
        empty.notes.refuse(empty.path, "What lies at /dev/shm is of medium Memory.")
    empty.take("medium", str)
    body["shm"] = empty.quantity("sizeLimit")
    if body["shm"] is None:
        message = "The manifest sets no size for /dev/shm; say how much of the memory it may take."
        problems.append(FieldProblem(field="shm", code="required", message=message))


def _security(container: Fields, pod: Fields, body: dict[str, Any]) -> None:
    of_pod, own = pod.object("securityContext"), container.object("securityContext")
    user = of_pod.take("runAsUser", int)
    inner = own.take("runAsUser", int)
    user = user if inner is None else inner
    body["run_as_user"] = user
    if user is None:
        why = f"No user is named, which is the image's; the portal runs it as user {DEFAULT_USER} unless run_as_user says so."
        pod.notes.drop(of_pod.at("runAsUser"), why)
    for context in (of_pod, own):
        context.pass_over(runAsNonRoot=user != 0, seccompProfile={"type": "RuntimeDefault"})
        context.pass_over(runAsNonRoot=False)
        context.pass_over(runAsGroup=DEFAULT_USER if user is None else user)
    of_pod.pass_over(fsGroup=DEFAULT_USER if user is None else user)
    own.pass_over(privileged=False, allowPrivilegeEscalation=False, readOnlyRootFilesystem=False)
    own.pass_over(capabilities={"drop": ["ALL"]})


def _priority(pod: Fields, body: dict[str, Any]) -> None:
    name = pod.take("priorityClassName", str)
    if name is None:
        return
    pod.drop("priority", BY_THE_PORTAL)
    priority = next((priority for priority in Priority if priority_class(priority.value) == name), None)
    if priority is None:
        listed = ", ".join(priority_class(priority.value) for priority in Priority)
        pod.notes.refuse(pod.at("priorityClassName"), f"Classes of runs are {listed}: choose a priority.")
    else:
        body["priority"] = priority.value


def without_nothing(body: Json) -> dict[str, Any]:
    """The body without what is empty."""
    return {name: value for name, value in body.items() if value not in (None, "", [], {})}
