"""A manifest of a Job or a PyTorchJob as a request: mapped field by field, or refused naming what has no place. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.errors import FieldProblem
from jobs.imports import pod
from jobs.imports.pod import Known
from jobs.imports.reading import Fields, Notes, documents
from jobs.kinds import JOB, PYTORCH_JOB
from jobs.matrix import MEMBERS_MAX
from workloads.podspec import grammar

__all__ = ["Imported", "Known", "documents", "request_of"]

SERVER_SET = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
BY_QUEUE = "Whether it starts is the queue's to say."
BY_PORTAL = pod.BY_THE_PORTAL
TTL = "The portal deletes the object when it has kept the result and the logs."
GANG_NAMES = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_NNODES",
    "PET_NODE_RANK",
)
"""Variables by which the pods of a Job find each other; the portal gives them to every run of several pods."""
PROCESSES = "PET_NPROC_PER_NODE"
INDEX = "JOB_COMPLETION_INDEX"
"""By which a pod of an Indexed Job knows its number."""
INDEX_PARAMETER = "index"
BY_ITSELF = frozenset({"auto", "gpu"})
"""What torchrun does by itself where GPUs are."""


@dataclass(frozen=True, slots=True)
class Imported:
    """`refused`: paths of the manifest that have no place; with one of them there is no request to be had.

    `dropped`: paths that are left out, each with the reason why that is no loss. `problems`: fields of the request
    that the user has to decide yet.
    """

    request: Mapping[str, Any]
    dropped: Mapping[str, str]
    refused: Sequence[FieldProblem]
    problems: Sequence[FieldProblem]


def request_of(parsed: Sequence[Any], known: Known) -> Imported:
    """The request that the one Job or PyTorchJob among the documents says."""
    notes = Notes()
    readers = {("batch/v1", "Job"): _job, ("kubeflow.org/v1", "PyTorchJob"): _pytorch_job}
    runs: list[tuple[Any, tuple[str, str]]] = []
    for index, document in enumerate(parsed):
        kind = _kind(document)
        if kind in readers:
            runs.append((document, kind))
            continue
        name = (document.get("metadata") or {}) if isinstance(document, Mapping) else {}
        called = f"{kind[1] or 'This'} {name.get('name') or '' if isinstance(name, Mapping) else ''}".strip()
        message = f"{called} is no Job of batch/v1 and no PyTorchJob of kubeflow.org/v1: only these are read."
        notes.refuse(f"documents.{index}" if len(parsed) > 1 else "kind", message, "unknown_kind")
    if len(runs) != 1:
        if runs or not parsed:
            notes.refuse("kind", "Give one Job or PyTorchJob.", "required" if not runs else "too_many")
        return Imported({}, notes.dropped, notes.refused, ())
    document, kind = runs[0]
    top = Fields(document, "", notes)
    for key in ("apiVersion", "kind"):
        top.take(key, str)
    top.drop("status", "It says how it went, not what is asked for.")
    head, problems = _metadata(top.object("metadata"), known)
    body, more = readers[kind](top.object("spec"), known)
    _merge_labels(head, body, notes)
    top.refuse_rest()
    request = pod.without_nothing({**head, **body})
    request["gpus_per_replica"] = body.get("gpus_per_replica", 0)
    return Imported(request, notes.dropped, notes.refused, [*problems, *more])


def _kind(document: Any) -> tuple[str, str]:
    fields = document if isinstance(document, Mapping) else {}
    return str(fields.get("apiVersion") or ""), str(fields.get("kind") or "")


def _metadata(metadata: Fields, known: Known) -> tuple[dict[str, Any], list[FieldProblem]]:
    name = metadata.take("name", str) or (metadata.take("generateName", str) or "").rstrip("-")
    body: dict[str, Any] = {"name": name, "labels": pod.labels(metadata)}
    problems = []
    if fault := grammar.workload_name(name):
        problems.append(FieldProblem(field="name", code=fault.code, message=fault.message))
        del body["name"]
    namespace = metadata.take("namespace", str)
    if namespace in known.teams:
        body["team"] = known.teams[namespace]
    elif namespace is not None:
        metadata.notes.drop(metadata.at("namespace"), "A run is in the namespace of its team.")
    for key in SERVER_SET:
        metadata.drop(key, "An API server sets it.")
    return body, problems


def _merge_labels(head: dict[str, Any], body: dict[str, Any], notes: Notes) -> None:
    """Labels of the object and of its pods are one in a request."""
    for name, value in body["labels"].items():
        if head["labels"].setdefault(name, value) != value:
            notes.refuse(
                f"metadata.labels.{name}", "The object and its pods have the same labels; these differ."
            )
    body["labels"] = head["labels"]


def _job(spec: Fields, known: Known) -> tuple[dict[str, Any], list[FieldProblem]]:
    replicas, matrix = _pods(spec)
    names = frozenset(GANG_NAMES) if replicas > 1 else frozenset[str]()
    template = spec.object("template")
    body, problems = pod.read(template, known, of_portal=names)
    inner = template.children[1]
    if replicas > 1:
        inner.drop("subdomain", BY_PORTAL)
    _processes_of_job(body)
    if matrix is not None:
        problems = [*problems, *_of_each(spec)]
        body["env"] = [each for each in body["env"] if each["name"] != INDEX]
        body["env"] = [*body["env"], {"name": INDEX, "value": f"${{{{ matrix.{INDEX_PARAMETER} }}}}"}]
    body |= {
        "kind": JOB,
        "replicas": replicas,
        "max_retries": spec.take("backoffLimit", int),
        "matrix": matrix,
    }
    body["time_limit_seconds"] = spec.take("activeDeadlineSeconds", int)
    spec.drop("suspend", BY_QUEUE)
    spec.drop("ttlSecondsAfterFinished", TTL)
    spec.drop("podReplacementPolicy", BY_PORTAL)
    spec.pass_over(manualSelector=False)
    selector = (
        (spec.rest.get("selector") or {}).get("matchLabels")
        if isinstance(spec.rest.get("selector"), dict)
        else None
    )
    if isinstance(selector, Mapping) and set(selector) <= pod.OWN_LABELS:
        spec.drop("selector", "The Job's controller sets it.")
    return body, problems


def _of_each(spec: Fields) -> list[FieldProblem]:
    """Limits of the whole Job that are those of every member now."""
    limits = {"activeDeadlineSeconds": "time_limit_seconds", "backoffLimit": "max_retries"}
    return [
        FieldProblem(
            field=field,
            code="of_each_member",
            message=f"{name} was for all pods together; each member of the sweep has it for itself.",
        )
        for name, field in limits.items()
        if spec.rest.get(name) is not None
    ]


def _pods(spec: Fields) -> tuple[int, dict[str, Any] | None]:
    """How many equal pods it has that start and end together; of one whose pods take turns, the matrix of a sweep."""
    completions, parallelism = spec.take("completions", int), spec.take("parallelism", int)
    indexed = spec.take("completionMode", str) == "Indexed"
    for name, count in (("completions", completions), ("parallelism", parallelism)):
        if count is not None and count < 1:
            spec.notes.refuse(
                spec.at(name), "A run has at least one pod, and starts when it may.", "min_value"
            )
            return 1, None
    several = (completions or 1) > 1 or (parallelism or 1) > 1
    if several and not indexed:
        spec.notes.refuse(
            spec.at("completionMode"), "Several pods of a run have numbers: it must be Indexed."
        )
    elif several and (completions or 0) > (parallelism or 1):
        return 1, _turns(spec, completions or 0, parallelism or 1)
    elif several and completions != parallelism:
        spec.notes.refuse(spec.at("parallelism"), "It cannot be more than completions.")
    return completions or parallelism or 1, None


def _turns(spec: Fields, completions: int, parallelism: int) -> dict[str, Any]:
    """Pods that do not start together are runs of their own: each knows its number as in a Job."""
    if completions > MEMBERS_MAX:
        message = (
            f"Pods that take turns become the members of a sweep, of which there are at most {MEMBERS_MAX}."
        )
        spec.notes.refuse(spec.at("completions"), message)
    return {
        "parameters": {INDEX_PARAMETER: {"from": 0, "to": completions - 1}},
        "max_parallel": parallelism,
    }


def _processes_of_job(body: dict[str, Any]) -> None:
    """What `nproc_per_node` becomes is a variable of torchrun."""
    for variable in body["env"]:
        if variable["name"] == PROCESSES and str(variable.get("value", "")).isdecimal():
            body["env"].remove(variable)
            body["nproc_per_node"] = int(variable["value"])
            return


def _pytorch_job(spec: Fields, known: Known) -> tuple[dict[str, Any], list[FieldProblem]]:
    policy = spec.object("runPolicy")
    for name, why in (("cleanPodPolicy", BY_PORTAL), ("suspend", BY_QUEUE), ("ttlSecondsAfterFinished", TTL)):
        policy.drop(name, why)
    elastic = _elastic(spec)
    body, replicas, problems = _replica_specs(
        spec.object("pytorchReplicaSpecs"), known, elastic=elastic is not None
    )
    body |= {
        "kind": PYTORCH_JOB,
        "replicas": None if elastic else replicas,
        "elastic": elastic,
        "max_retries": policy.take("backoffLimit", int),
        "time_limit_seconds": policy.take("activeDeadlineSeconds", int),
    }
    processes = spec.quantity("nprocPerNode")
    if processes is not None and processes.isdecimal():
        body["nproc_per_node"] = int(processes[:9])
    elif processes is not None and processes not in BY_ITSELF:
        spec.notes.refuse(spec.at("nprocPerNode"), "Give a number, or auto.")
    return body, problems


def _elastic(spec: Fields) -> dict[str, Any] | None:
    if not spec.rest.get("elasticPolicy"):
        return None
    policy = spec.object("elasticPolicy")
    policy.pass_over(rdzvBackend="c10d")
    bounds = {
        "min_replicas": policy.take("minReplicas", int),
        "max_replicas": policy.take("maxReplicas", int),
    }
    return {name: value for name, value in bounds.items() if value is not None}


def _replica_specs(
    specs: Fields, known: Known, *, elastic: bool
) -> tuple[dict[str, Any], int, list[FieldProblem]]:
    """The body that all replica types say alike, how many pods they are together, and what is to be decided."""
    names = [name for name in ("Master", "Worker") if name in specs.rest]
    if not names:
        specs.notes.refuse(specs.path, "There is neither a Master nor a Worker.", "required")
        return {"labels": {}}, 1, []
    if elastic and "Master" in names:
        specs.notes.refuse(specs.at("Master"), "An elastic run has workers alone.")
    bodies, replicas, problems = [], 0, []
    for name in names:
        replica = specs.object(name)
        count = replica.take("replicas", int)
        replicas += 1 if count is None else count
        replica.drop("restartPolicy", pod.WHY_DROPPED["restartPolicy"])
        body, more = pod.read(replica.object("template"), known, of_portal=frozenset())
        bodies.append(body)
        problems += [problem for problem in more if problem not in problems]
    for key in bodies[0] if len(bodies) > 1 else ():
        if bodies[0].get(key) != bodies[1].get(key):
            message = f"Master and workers are alike in a run; their {key} differs."
            specs.notes.refuse(f"{specs.at('Worker')}.template", message)
    return bodies[0], replicas, problems
