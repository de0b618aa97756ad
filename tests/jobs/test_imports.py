"""A manifest becomes a request field by field, or is refused naming what has no place; nothing is lost unseen."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from fractions import Fraction

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import Malformed
from jobs.imports import Known, documents, request_of
from jobs.imports.reading import LIMITS, REFUSED_MAX, TEXT_BYTES_MAX
from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from tenancy.namespace_manifests import SERVICE_ACCOUNT, priority_class
from tests.effort import drawn
from tests.kind_samples import SAMPLES
from tests.manifest_samples import RUN_BODIES, RUN_PLACEMENTS, placement
from tests.manifest_strategies import run_bodies
from tests.tables import each_row
from workloads.placement import FlavorFacts, NodeFacts, Sharing, node_terms, tolerations

TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
PRODUCT = "nvidia.com/gpu.product"
CAPACITY = "karpenter.sh/capacity-type"


def flavor(name, resource="nvidia.com/gpu", *, product=None, sharing=Sharing.NONE, **capacity) -> FlavorFacts:
    return FlavorFacts(
        name=name,
        resource=resource,
        gpu_fraction=Fraction(1),
        sharing=sharing,
        node_selector={PRODUCT: [product]} if product else {},
        tolerations=[TAINT],
        capacity=capacity or {"on-demand": {}},
    )


def of(kind: str) -> dict:
    return {"node_selector": {CAPACITY: [kind]}}


A100 = flavor(
    "a100-40gb", product="NVIDIA-A100-SXM4-40GB", **{"on-demand": of("on-demand"), "spot": of("spot")}
)
H100 = flavor("h100", product="NVIDIA-H100-80GB-HBM3")
MIG = flavor("a100-mig-1g.10gb", "nvidia.com/mig-1g.10gb", sharing=Sharing.MIG)
SHARED = flavor("t4-shared", "nvidia.com/gpu.shared", sharing=Sharing.TIME_SLICING)
FLAVORS = {each.name: each for each in (A100, H100, MIG, SHARED)}
NODES = [NodeFacts("cut", {PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}, {"nvidia.com/gpu": 7})]
KNOWN = Known(flavors=list(FLAVORS.values()), nodes=NODES, teams={"team-vision": "vision"})


def placed(spec: TrainingRunSpec, base):
    facts = FLAVORS.get(spec.flavor or "")
    return replace(
        base,
        resource_name=facts.resource if facts else None,
        node_terms=node_terms(facts, spec.capacity, NODES) if facts else [],
        tolerations=tolerations(facts, spec.capacity),
        service_account=SERVICE_ACCOUNT,
        priority_class=priority_class(spec.priority),
    )


def built(spec: TrainingRunSpec, base) -> dict:
    return json.loads(json.dumps(build_training_run(spec, placed(spec, base)).primary))


def plain(manifest: dict) -> dict:
    """Without what the portal alone decides: the object's deadline, and what it calls volumes."""
    found = copy.deepcopy(manifest)
    found["spec"].pop("activeDeadlineSeconds", None)
    found["spec"].get("runPolicy", {}).pop("activeDeadlineSeconds", None)
    for template in templates(found["spec"]):
        volumes = {each.pop("name"): each for each in template["spec"].get("volumes", [])}
        for mount in template["spec"]["containers"][0].get("volumeMounts", []):
            mount["name"] = volumes[mount["name"]]
    return found


def templates(spec: dict) -> list[dict]:
    kinds = spec.get("pytorchReplicaSpecs")
    return [each["template"] for each in kinds.values()] if kinds else [spec["template"]]


def imported(*manifests, known=KNOWN):
    return request_of(list(manifests), known)


OWN_KINDS = {name: sample for name, sample in SAMPLES.items() if sample.body["kind"] in {"job", "pytorchjob"}}
BODIES = {**RUN_BODIES, **{name: sample.body for name, sample in OWN_KINDS.items()}}
BASES = {**RUN_PLACEMENTS, **{name: sample.placement for name, sample in OWN_KINDS.items()}}


def clones(body) -> bool:
    """Whether the code comes by git: with an init container, which only the portal itself may bring."""
    return bool((body.get("source") or {}).get("git"))


def test_an_init_container_of_the_portal_has_no_place_either():
    (name,) = [name for name, body in BODIES.items() if clones(body)]
    refused = imported(built(TrainingRunSpec.from_json(BODIES[name]), BASES[name])).refused
    assert "spec.template.spec.initContainers" in {each.field for each in refused}


@pytest.mark.parametrize("name", [name for name, body in BODIES.items() if not clones(body)])
def test_what_the_portal_makes_it_reads_back_to_the_same(name):
    spec = TrainingRunSpec.from_json(BODIES[name])
    manifest = built(spec, BASES[name])
    found = imported(manifest)
    assert (found.refused, found.problems) == ([], [])
    assert found.request["team"] == "vision"
    again = TrainingRunSpec.from_json({**found.request, "name": spec.name})
    assert plain(built(again, BASES[name])) == plain(manifest)


@given(body=run_bodies.filter(lambda body: not clones(body)))
def test_any_run_reads_back_to_the_same(body):
    spec = TrainingRunSpec.from_json({**body, "capacity": "on-demand"})
    base = placement(spec.name, "training-run")
    found = imported(built(spec, base))
    assert (found.refused, found.problems) == ([], [])
    again = TrainingRunSpec.from_json({**found.request, "name": spec.name})
    assert plain(built(again, base)) == plain(built(spec, base))


def objects(value, path=""):
    """The path of every object of the manifest."""
    if isinstance(value, dict):
        yield path
        for name, inner in value.items():
            yield from objects(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, f"{path}.{index}")


def at(value, path):
    for name in path.split(".") if path else ():
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def reachable(manifest, path) -> bool:
    try:
        return isinstance(at(manifest, path), dict)
    except (KeyError, ValueError, TypeError):
        return False  # a key with a dot in it


@pytest.mark.parametrize(
    "name",
    ["everything_8_gpus", "gang_of_32_gpus", "root_run", "pytorchjob_spot", "pytorchjob_elastic_whole"],
)
def test_a_field_that_nobody_knows_is_never_lost(name):
    """Put into any object of a manifest, it is refused or said to be left out, with what holds it at most."""
    whole = built(TrainingRunSpec.from_json(BODIES[name]), BASES[name])
    before = imported(whole)
    for path in (path for path in objects(whole) if reachable(whole, path)):
        manifest = copy.deepcopy(whole)
        at(manifest, path)["unknownField"] = {"x": 1}
        found = imported(manifest)
        told = {each.field for each in found.refused} | set(found.dropped)
        new = f"{path}.unknownField".lstrip(".")
        held = [each for each in told if new == each or new.startswith(f"{each}.")]
        assert held, (path, told - set(before.dropped))


# --- manifests that people have

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml, labels: {project: x, app.kubernetes.io/name: train}}
spec:
  backoffLimit: 2
  activeDeadlineSeconds: 7200
  template:
    spec:
      restartPolicy: OnFailure
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      containers:
      - name: trainer
        image: example.org/train:1
        command: [python, train.py]
        env:
        - {name: A, value: "1"}
        - name: TOKEN
          valueFrom: {secretKeyRef: {name: hf, key: token}}
        resources:
          requests: {cpu: 4, memory: 16Gi}
          limits: {nvidia.com/gpu: 2, vpc.amazonaws.com/efa: 1}
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: data, mountPath: /more}
        - {name: dshm, mountPath: /dev/shm}
        - {name: conf, mountPath: /etc/conf}
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: datasets, readOnly: true}}
      - {name: dshm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}
      - {name: conf, configMap: {name: conf}}
"""


def job(**changes) -> dict:
    """The Job above with some of its pod template's or its own fields changed, by path."""
    (found,) = documents(JOB)
    for path, value in changes.items():
        *above, last = path.split("__")
        holder = at(found, ".".join(above))
        holder[int(last) if isinstance(holder, list) else last] = value
    return found


POD = "spec__template__spec"
MAIN = f"{POD}__containers__0"


def test_a_job_is_read_field_by_field():
    found = imported(job())
    assert (found.refused, found.problems) == ([], [])
    assert found.request == {
        "name": "train",
        "labels": {"project": "x"},
        "kind": "job",
        "replicas": 1,
        "max_retries": 2,
        "time_limit_seconds": 7200,
        "image": "example.org/train:1",
        "command": ["python", "train.py"],
        "env": [{"name": "A", "value": "1"}, {"name": "TOKEN", "secret": "hf", "key": "token"}],
        "cpu": "4",
        "memory": "16Gi",
        "extra_resources": {"vpc.amazonaws.com/efa": 1},
        "flavor": "h100",
        "capacity": "on-demand",
        "gpus_per_replica": 2,
        "shm": "8Gi",
        "volumes": [
            {"claim": "datasets", "path": "/data", "read_only": True},
            {"claim": "datasets", "path": "/more", "read_only": True},
        ],
        "config_maps": [{"name": "conf", "path": "/etc/conf"}],
    }
    assert set(found.dropped) == {
        "metadata.namespace",
        "metadata.labels.app.kubernetes.io/name",
        "spec.template.spec.restartPolicy",
        "spec.template.spec.containers.0.name",
        "spec.template.spec.containers.0.resources.limits.cpu",
        "spec.template.spec.containers.0.resources.limits.memory",
        "spec.template.spec.securityContext.runAsUser",
    }


@each_row(
    ("change", "path"),
    [
        ({f"{POD}__hostNetwork": True}, "spec.template.spec.hostNetwork"),
        ({f"{POD}__initContainers": [{"name": "a"}]}, "spec.template.spec.initContainers"),
        ({f"{POD}__serviceAccountName": "admin"}, "spec.template.spec.serviceAccountName"),
        ({f"{POD}__schedulerName": "volcano"}, "spec.template.spec.schedulerName"),
        ({f"{POD}__priorityClassName": "urgent"}, "spec.template.spec.priorityClassName"),
        ({f"{POD}__subdomain": "x"}, "spec.template.spec.subdomain"),
        ({f"{POD}__securityContext": {"runAsUser": 5, "fsGroup": 7}}, "spec.template.spec.securityContext.fsGroup"),
        ({f"{POD}__securityContext": {"runAsUser": "root"}}, "spec.template.spec.securityContext.runAsUser"),
        ({f"{POD}__nodeSelector": {"zone": "a"}, f"{MAIN}__resources": {}}, "spec.template.spec.nodeSelector.zone"),
        (
            {f"{POD}__nodeSelector": {PRODUCT: "NVIDIA-H100-80GB-HBM3", "zone": "a"}},
            "spec.template.spec.nodeSelector.zone",
        ),
        ({f"{POD}__tolerations__0": {"operator": "Exists"}}, "spec.template.spec.tolerations.0"),
        ({f"{POD}__tolerations__0": {"key": "x", "operator": "Exists"}}, "spec.template.spec.tolerations.0"),
        ({f"{POD}__affinity": {"podAffinity": {"x": 1}}}, "spec.template.spec.affinity.podAffinity"),
        ({f"{POD}__volumes__0": {"name": "data", "hostPath": {"path": "/"}}}, "spec.template.spec.volumes.0.hostPath"),
        ({f"{POD}__volumes__1": {"name": "dshm", "emptyDir": {}}}, "spec.template.spec.volumes.1.emptyDir"),
        (
            {f"{POD}__volumes__2": {"name": "conf", "configMap": {"name": "c", "items": [{"key": "a"}]}}},
            "spec.template.spec.volumes.2.configMap.items",
        ),
        ({f"{MAIN}__volumeMounts__0": {"name": "gone", "mountPath": "/x"}}, "spec.template.spec.containers.0.volumeMounts.0"),
        (
            {f"{MAIN}__volumeMounts__0": {"name": "data", "mountPath": "/x", "subPath": "a"}},
            "spec.template.spec.containers.0.volumeMounts.0.subPath",
        ),
        ({f"{MAIN}__envFrom": [{"secretRef": {"name": "a"}}]}, "spec.template.spec.containers.0.envFrom"),
        (
            {f"{MAIN}__env__0": {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}},
            "spec.template.spec.containers.0.env.0.valueFrom.fieldRef",
        ),
        ({f"{MAIN}__env__0": {"name": "A", "value": 1}}, "spec.template.spec.containers.0.env.0.value"),
        ({f"{MAIN}__command": "python train.py"}, "spec.template.spec.containers.0.command"),
        ({f"{MAIN}__command": ["python", 1]}, "spec.template.spec.containers.0.command.1"),
        ({f"{MAIN}__livenessProbe": {"x": 1}}, "spec.template.spec.containers.0.livenessProbe"),
        (
            {f"{MAIN}__securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}},
            "spec.template.spec.containers.0.securityContext.capabilities",
        ),
        ({f"{MAIN}__securityContext": {"privileged": True}}, "spec.template.spec.containers.0.securityContext.privileged"),
        ({f"{MAIN}__resources": {"limits": {"nvidia.com/gpu": "1.5"}}}, "spec.template.spec.containers.0.resources.limits.nvidia.com/gpu"),
        (
            {f"{MAIN}__resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}}},
            "spec.template.spec.containers.0.resources.limits.nvidia.com/mig-1g.10gb",
        ),
        (
            {f"{MAIN}__resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 2}}},
            "spec.template.spec.containers.0.resources.limits.nvidia.com/gpu",
        ),
        ({f"{POD}__containers": []}, "spec.template.spec.containers"),
        ({f"{POD}__containers": "main"}, "spec.template.spec.containers"),
        ({"spec__podFailurePolicy": {"rules": []}}, None),
        ({"spec__podFailurePolicy": {"rules": [1]}}, "spec.podFailurePolicy"),
        ({"spec__completions": 4}, "spec.completionMode"),
        ({"spec__parallelism": 4}, "spec.completionMode"),
        ({"spec__completions": 2, "spec__parallelism": 4, "spec__completionMode": "Indexed"}, "spec.parallelism"),
        ({"spec__completions": 2, "spec__parallelism": 0, "spec__completionMode": "Indexed"}, "spec.parallelism"),
        ({"spec__completions": -5}, "spec.completions"),
        (
            {"spec__completions": 1001, "spec__parallelism": 4, "spec__completionMode": "Indexed"},
            "spec.completions",
        ),
        ({"spec__template": "x"}, "spec.template"),
        ({"metadata__annotations": {"example.org/x": "y"}}, "metadata.annotations.example.org/x"),
        ({"metadata__ownerReferences": [{"uid": "x"}]}, "metadata.ownerReferences"),
        ({"metadata__labels": {"kueue.x-k8s.io/queue-name": "q"}}, "metadata.labels.kueue.x-k8s.io/queue-name"),
        ({"spec__template__metadata": {"labels": {"project": "other"}}}, "metadata.labels.project"),
        ({"kind": "Deployment"}, "kind"),
        ({"apiVersion": "batch/v1beta1"}, "kind"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_named(change, path):
    refused = [each.field for each in imported(job(**change)).refused]
    assert path in refused if path else refused == []


def test_all_of_it_is_named_at_once():
    found = imported(
        job(**{f"{POD}__hostNetwork": True, f"{MAIN}__tty": True, "spec__successPolicy": {"rules": [1]}})
    )
    assert {each.field for each in found.refused} == {
        "spec.template.spec.hostNetwork",
        "spec.template.spec.containers.0.tty",
        "spec.successPolicy",
    }


def test_an_object_as_the_api_server_shows_it_is_read():
    """What `kubectl get -o yaml` adds is said to be left out, or says nothing."""
    shown = job(
        metadata__uid="1",
        metadata__resourceVersion="2",
        metadata__generation=1,
        metadata__creationTimestamp="2026-01-01T00:00:00Z",
        metadata__annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        metadata__managedFields=[{"manager": "kubectl"}],
        spec__completions=1,
        spec__parallelism=1,
        spec__completionMode="NonIndexed",
        spec__manualSelector=False,
        spec__suspend=False,
        spec__podReplacementPolicy="TerminatingOrFailed",
        spec__selector={"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}},
        status={"active": 1},
        **{
            "spec__template__metadata": {"creationTimestamp": None, "labels": {"job-name": "train"}},
            f"{POD}__dnsPolicy": "ClusterFirst",
            f"{POD}__schedulerName": "default-scheduler",
            f"{POD}__securityContext": {},
            f"{POD}__terminationGracePeriodSeconds": 30,
            f"{POD}__volumes__2": {"name": "conf", "configMap": {"name": "conf", "defaultMode": 420}},
            f"{MAIN}__terminationMessagePath": "/dev/termination-log",
            f"{MAIN}__terminationMessagePolicy": "File",
            f"{MAIN}__imagePullPolicy": "IfNotPresent",
        },
    )
    found = imported(shown)
    assert found.refused == []
    assert found.request == imported(job()).request


@pytest.mark.parametrize(
    ("selector", "flavors", "expected"),
    [
        ({}, [A100], ("a100-40gb", "on-demand")),
        ({CAPACITY: "spot"}, [A100, H100], ("a100-40gb", "spot")),
        ({PRODUCT: "NVIDIA-A100-SXM4-40GB"}, [A100, H100], ("a100-40gb", "on-demand")),
        ({PRODUCT: "NVIDIA-A100-SXM4-40GB", CAPACITY: "spot"}, [A100, H100], ("a100-40gb", "spot")),
        ({}, [A100, H100], "choose one of a100-40gb, h100"),
        ({PRODUCT: "Tesla-T4"}, [A100, H100], "No flavor has such nodes: choose one of a100-40gb, h100"),
        ({}, [MIG], "No flavor has nvidia.com/gpu. There is: a100-mig-1g.10gb (nvidia.com/mig-1g.10gb)"),
        ({}, [], "There is: none"),
    ],
)
def test_the_flavor_is_the_one_that_gives_what_is_asked_for(selector, flavors, expected):
    manifest = job(**{f"{POD}__nodeSelector": selector})
    found = imported(manifest, known=Known(flavors=flavors))
    assert found.refused == []
    assert found.request["gpus_per_replica"] == 2
    if isinstance(expected, tuple):
        assert (found.request["flavor"], found.request["capacity"]) == expected
    else:
        assert "flavor" not in found.request
        assert [(each.field, expected in each.message) for each in found.problems] == [("flavor", True)]


def test_affinity_is_read_as_a_selector_is():
    terms = [
        {
            "matchExpressions": [
                {"key": PRODUCT, "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3", "other"]}
            ]
        }
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    manifest = job(**{f"{POD}__nodeSelector": {}, f"{POD}__affinity": {"nodeAffinity": required}})
    assert imported(manifest).request["flavor"] == "h100"
    terms.append({"matchExpressions": []})
    assert [each.field for each in imported(manifest).refused] == [
        "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.1"
    ]


def test_shared_memory_without_a_size_is_to_be_decided():
    found = imported(job(**{f"{POD}__volumes__1": {"name": "dshm", "emptyDir": {"medium": "Memory"}}}))
    assert found.refused == []
    assert [each.field for each in found.problems] == ["shm"]


# --- PyTorchJobs


def pytorch_job(**spec) -> dict:
    template = copy.deepcopy(job()["spec"]["template"])
    template["spec"]["containers"][0]["name"] = "pytorch"
    template["spec"]["containers"][0]["ports"] = [{"name": "pytorchjob-port", "containerPort": 23456}]
    replicas = {
        "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template},
        "Worker": {"replicas": 3, "restartPolicy": "OnFailure", "template": copy.deepcopy(template)},
    }
    policy = {"cleanPodPolicy": "None", "backoffLimit": 1, "activeDeadlineSeconds": 600}
    body = {"runPolicy": policy, "nprocPerNode": "8", "pytorchReplicaSpecs": replicas, **spec}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "llm"}, "spec": body}


def test_a_pytorch_job_counts_its_master_among_the_replicas():
    found = imported(pytorch_job())
    assert found.refused == []
    wanted = {
        "kind": "pytorchjob",
        "replicas": 4,
        "nproc_per_node": 8,
        "max_retries": 1,
        "time_limit_seconds": 600,
    }
    assert {name: found.request[name] for name in wanted} == wanted
    assert "spec.pytorchReplicaSpecs.Master.template.spec.containers.0.ports.0" in found.dropped


@pytest.mark.parametrize(("processes", "expected"), [("auto", None), ("gpu", None), ("2", 2), (2, 2)])
def test_processes_are_a_number_or_left_to_torchrun(processes, expected):
    assert imported(pytorch_job(nprocPerNode=processes)).request.get("nproc_per_node") == expected


def test_an_elastic_one_has_workers_alone():
    policy = {"minReplicas": 2, "maxReplicas": 4, "rdzvBackend": "c10d"}
    found = imported(pytorch_job(elasticPolicy=policy))
    assert [each.field for each in found.refused] == ["spec.pytorchReplicaSpecs.Master"]
    manifest = pytorch_job(elasticPolicy=policy)
    del manifest["spec"]["pytorchReplicaSpecs"]["Master"]
    found = imported(manifest)
    assert found.request["elastic"] == {"min_replicas": 2, "max_replicas": 4}
    assert "replicas" not in found.request


def test_what_has_no_place_in_a_pytorch_job_is_named():
    manifest = pytorch_job(
        nprocPerNode="cpu", elasticPolicy={"minReplicas": 1, "maxReplicas": 4, "metrics": [1]}
    )
    manifest["spec"]["runPolicy"]["schedulingPolicy"] = {"queue": "a"}
    manifest["spec"]["pytorchReplicaSpecs"]["Chief"] = {"replicas": 1}
    worker = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["command"] = ["python", "other.py"]
    assert {each.field for each in imported(manifest).refused} == {
        "spec.nprocPerNode",
        "spec.elasticPolicy.metrics",
        "spec.runPolicy.schedulingPolicy",
        "spec.pytorchReplicaSpecs.Chief",
        "spec.pytorchReplicaSpecs.Master",
        "spec.pytorchReplicaSpecs.Worker.template",
    }
    assert [each.field for each in imported(pytorch_job(pytorchReplicaSpecs={})).refused] == [
        "spec.pytorchReplicaSpecs"
    ]


# --- several documents, and what is none


def test_other_documents_are_refused_by_name():
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "datasets"}}
    found = imported(claim, job(), "text")
    assert [(each.field, each.message.split(" is no")[0]) for each in found.refused] == [
        ("documents.0", "PersistentVolumeClaim datasets"),
        ("documents.2", "This"),
    ]
    assert [each.field for each in imported(job(), job()).refused] == ["kind"]
    assert [each.field for each in imported().refused] == ["kind"]


def test_documents_are_read_as_kubernetes_reads_them():
    text = "# first\n---\na: 2026-01-01\n---\n---\nb: &x [1]\nc: *x\n"
    assert documents(text) == [{"a": "2026-01-01"}, {"b": [1], "c": [1]}]
    assert documents('\n{"a": [1, null]}') == [{"a": [1, None]}]
    assert documents("") == []


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@each_row(
    "text",
    [
        BOMB,
        MERGES,
        "a: &a [*a]",
        "a: &a {b: *a}",
        "x" * (TEXT_BYTES_MAX + 1),
        "[" * 50_000,
        '{"a":' * 20_000,
        "a: [" + "x, " * (LIMITS.values + 1) + "]",
        "a: 1\na: 2",
        '{"a": 1, "a": 2}',
        "? [a]\n: 1",
        "1: x\n? {a: 1}\n: 2",
        "a: !!python/object/apply:os.system [ls]",
        "a: .nan",
        "a: .inf",
        '{"a": NaN}',
        '{"a": 1',
        "a: [",
        "a: !!binary aGVsbG8=",
        "a: !!set {x, y}",
        "\x00",
        "a: *gone",
        "---\n" * 5 + "a: 1\n---\n" * 30,
        '{"a": ' + "9" * 10_000 + "}",
        "a: !!timestamp soon",
        "a: !!bool perhaps",
        "a: !!int ''",
    ],
    ids=range(27),
)
def test_what_is_no_manifest_is_refused_and_costs_little(text):
    with pytest.raises(Malformed) as caught:
        documents(text)
    assert caught.value.errors[0].field == "manifest"


def test_of_many_paths_that_have_no_place_a_hundred_are_named():
    found = imported(job(**{f"spec__k{number}": 1 for number in range(4412)})).refused
    assert len(found) == REFUSED_MAX + 1
    assert found[-1].message == "And 4,312 more that have no place in a training run."


json_like = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=drawn(usual=40, soak=3000))
@given(data=st.data(), value=json_like)
def test_anything_in_any_place_is_answered(data, value):
    """Whatever stands where: a request, or paths that are named; never an error of the portal's own."""
    manifest = data.draw(st.sampled_from([job(), pytorch_job()]))
    path = data.draw(st.sampled_from([path for path in objects(manifest) if reachable(manifest, path)]))
    holder = at(manifest, path)
    holder[data.draw(st.sampled_from([*sorted(holder), "other"]))] = value
    found = imported(manifest)
    assert all(each.field and each.message for each in found.refused)
    json.dumps(found.request)
    assert yaml.safe_load(yaml.safe_dump(found.request)) == found.request
