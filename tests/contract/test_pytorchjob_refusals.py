"""What is refused of a PyTorchJob: by the schema of its definition, and by the training operator's webhook."""

from __future__ import annotations

import copy

import pytest

from .definitions import knows_the_fields_of
from .kube import APPLY, GPU, MERGE, STRATEGIC, fields, pytorch_job, refusal, unique
from .pytorchjobs import ALL_RUN, GROUP

JOB = pytorch_job("refused", ALL_RUN, policy={"suspend": True})
SPECS = "spec/pytorchReplicaSpecs"
MASTER = f"{SPECS}/Master"
CONTAINERS = f"{MASTER}/template/spec/containers"
IN_MASTER = "spec.pytorchReplicaSpecs.Master.template.spec.containers"
AT_MASTER = "spec.pytorchReplicaSpecs[Master]"
WEBHOOK = "validator.pytorchjob.training-operator.kubeflow.org"
WORKER = JOB["spec"]["pytorchReplicaSpecs"]["Worker"]
GONE = object()


def changed(path, value):
    """A copy of the job with one field set or taken away; a path has slashes, numbers are list indexes."""
    made = copy.deepcopy(JOB)
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    place = made
    for key in parents:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return made


@pytest.fixture
def path(kube, shared_ns):
    groups = {group["name"] for group in kube.request("GET", "/apis")["groups"]}
    if "kubeflow.org" not in groups:
        pytest.skip("this cluster does not serve kubeflow.org")
    return f"{GROUP}/namespaces/{shared_ns}/pytorchjobs"


@pytest.fixture
def webhook(kube, path):
    """devcluster always plays it; a real cluster may run without."""
    if kube.name != "devcluster":
        found = kube.request("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
        if WEBHOOK not in {one["name"] for item in found["items"] for one in item.get("webhooks") or ()}:
            pytest.skip("no webhook of a training operator is registered on this cluster")
    return path


def must_be(field, wanted, got):
    return f'{field}: Invalid value: "{got}": {field} in body must be of type {wanted}: "{got}"'


BY_SCHEMA = {
    "no replicas": (SPECS, GONE, "spec.pytorchReplicaSpecs: Required value"),
    "no containers": (CONTAINERS, GONE, f"{IN_MASTER}: Required value"),
    "a container without a name": (f"{CONTAINERS}/0/name", GONE, f"{IN_MASTER}[0].name: Required value"),
    "a variable without a name": (f"{CONTAINERS}/0/env", [{"value": "a"}], f"{IN_MASTER}[0].env[0].name: Required value"),
    "a count as text": (
        f"{MASTER}/replicas", "one", must_be("spec.pytorchReplicaSpecs.Master.replicas", "integer", "string"),
    ),
    "processes as a number": ("spec/nprocPerNode", 4, must_be("spec.nprocPerNode", "string", "integer")),
    "suspend as text": ("spec/runPolicy/suspend", "yes", must_be("spec.runPolicy.suspend", "boolean", "string")),
    "containers as an object": (CONTAINERS, {}, must_be(IN_MASTER, "array", "object")),
    "a variable's value as a number": (
        f"{CONTAINERS}/0/env", [{"name": "a", "value": 3}], must_be(f"{IN_MASTER}[0].env[0].value", "string", "integer"),
    ),
    "an amount that is none": (
        f"{CONTAINERS}/0/resources", {"limits": {"cpu": "abc"}},
        f'{IN_MASTER}[0].resources.limits.cpu: Invalid value: "abc": {IN_MASTER}[0].resources.limits.cpu in body should match',
    ),
    "a variable twice": (
        f"{CONTAINERS}/0/env", [{"name": "a"}, {"name": "a"}],
        f'{AT_MASTER}.template.spec.containers[0].env[1]: Duplicate value: {{"name":"a"}}',
    ),
    "a name in capitals": ("metadata/name", "Refused", 'metadata.name: Invalid value: "Refused"'),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_SCHEMA)
def test_the_schema_refuses_and_names_the_field(kube, path, case):
    place, value, words = BY_SCHEMA[case]
    status = refusal(kube.request, "POST", path, changed(place, value))
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith("PyTorchJob.kubeflow.org ")
    assert words in status["message"]
    assert words.partition(":")[0] in fields(status)
    assert (status["details"]["group"], status["details"]["kind"]) == ("kubeflow.org", "PyTorchJob")


DNS_LABEL = (
    "should match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with"
)
NO_CONTAINERS = "template.spec.containers: Required value"
NOT_NAMED = "must have at least one container with name pytorch"
BY_WEBHOOK = {
    "a name that starts with a digit": ("metadata/name", "1st", f'metadata.name: Invalid value: "1st": {DNS_LABEL}'),
    "a name with a dot": ("metadata/name", "a.b", f'metadata.name: Invalid value: "a.b": {DNS_LABEL}'),
    "a name of 64 letters": ("metadata/name", "a" * 64, "should match: must be no more than 63 characters"),
    "no spec": ("spec", GONE, "spec.pytorchReplicaSpecs: Required value: must be required"),
    "two masters": (f"{MASTER}/replicas", 2, f"{AT_MASTER}.replicas: Forbidden: must be 1"),
    "masters uncounted": (f"{MASTER}/replicas", GONE, f"{AT_MASTER}.replicas: Forbidden: must be 1"),
    "no workers": (
        f"{SPECS}/Worker/replicas", 0, "spec.pytorchReplicaSpecs[Worker].replicas: Forbidden: must be at least 1",
    ),
    "another role": (
        f"{SPECS}/Chief", WORKER,
        'spec.pytorchReplicaSpecs[Chief]: Unsupported value: "Chief": supported values: "Master", "Worker"',
    ),
    "a role in small letters": (f"{SPECS}/worker", WORKER, 'spec.pytorchReplicaSpecs[worker]: Unsupported value: "worker"'),
    "no container at all": (
        CONTAINERS, [],
        f"[{AT_MASTER}.{NO_CONTAINERS}: must be specified, {AT_MASTER}.{NO_CONTAINERS}: {NOT_NAMED}]",
    ),
    "no container named pytorch": (
        f"{CONTAINERS}/0/name", "main",
        f"{AT_MASTER}.{NO_CONTAINERS}: {NOT_NAMED}",
    ),
    "no image": (
        f"{CONTAINERS}/0/image", GONE, f"{AT_MASTER}.template.spec.containers[0].image: Required value: must be required",
    ),
    "an unknown manager": ("spec/runPolicy/managedBy", "me", 'spec.runPolicy.managedBy: Unsupported value: "me"'),
    "elastic without workers": (
        "spec", {"pytorchReplicaSpecs": {"Master": JOB["spec"]["pytorchReplicaSpecs"]["Master"]}, "elasticPolicy": {}},
        "spec.pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used",
    ),
    "processes twice": (
        "spec", {**JOB["spec"], "elasticPolicy": {"nProcPerNode": 2}, "nprocPerNode": "2"},
        "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_WEBHOOK)
def test_the_webhook_denies_and_names_the_field(kube, webhook, case):
    place, value, words = BY_WEBHOOK[case]
    status = refusal(kube.request, "POST", webhook, changed(place, value))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith(f'admission webhook "{WEBHOOK}" denied the request: ')
    assert words in status["message"]


def test_the_webhook_looks_at_changes_too(kube, webhook):
    name = unique("changed")
    kube.request("POST", webhook, changed("metadata/name", name))
    change = {"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 2}}}}
    status = refusal(kube.request, "PATCH", f"{webhook}/{name}", change, content_type=MERGE)
    assert status["message"].endswith(f"{AT_MASTER}.replicas: Forbidden: must be 1")


def test_an_unknown_field_is_refused_when_asked_to_be_strict(kube, path):
    body = changed(f"{CONTAINERS}/0/imagePullPolice", "Always")
    status = refusal(kube.request, "POST", path, body, query={"fieldValidation": "Strict"})
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert status["message"].endswith(
        f'strict decoding error: unknown field "{IN_MASTER}[0].imagePullPolice"'
    )


def test_an_unknown_field_is_dropped_otherwise(kube, path):
    body = changed("spec/unknown", 1)
    query = {"fieldValidation": "Ignore", "dryRun": "All"}
    assert kube.request("POST", path, body, query=query)["spec"] == JOB["spec"]


def test_an_applied_unknown_field_is_not_in_the_schema(kube, path):
    body, query = changed("spec/unknown", 1), {"fieldManager": "case"}
    status = refusal(kube.request, "PATCH", f"{path}/refused", body, query=query, content_type=APPLY)
    assert status["message"].endswith(
        "kubeflow.org/v1, Kind=PyTorchJob): .spec.unknown: field not declared in schema"
    )


def test_the_queue_may_not_change(kube, path):
    name, policy = unique("queued"), {"suspend": True, "schedulingPolicy": {"queue": "a"}}
    kube.request("POST", path, pytorch_job(name, ALL_RUN, policy=policy))
    change = {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "b"}}}}
    status = refusal(kube.request, "PATCH", f"{path}/{name}", change, content_type=MERGE)
    assert (status["code"], fields(status)) == (422, {"spec.runPolicy.schedulingPolicy.queue"})
    assert status["message"].endswith("spec.runPolicy.schedulingPolicy.queue is immutable")


def test_a_custom_resource_knows_no_strategic_merge(kube, path):
    name = unique("merged")
    kube.request("POST", path, changed("metadata/name", name))
    change = {"spec": {"nprocPerNode": "2"}}
    status = refusal(kube.request, "PATCH", f"{path}/{name}", change, content_type=STRATEGIC)
    assert (status["code"], status["reason"]) == (415, "UnsupportedMediaType")


def test_applying_twice_changes_nothing(kube, path):
    name = unique("applied")
    query = {"fieldManager": "case", "fieldValidation": "Strict"}
    body = pytorch_job(name, ALL_RUN, policy={"suspend": True}, template={"limits": {GPU: "1"}})
    first = kube.request("PATCH", f"{path}/{name}", body, query=query, content_type=APPLY)
    again = kube.request("PATCH", f"{path}/{name}", body, query=query, content_type=APPLY)
    assert first["metadata"]["generation"] == again["metadata"]["generation"] == 1
    assert again["spec"] == body["spec"]


TYPES = {
    "PyTorchJobSpec": ("spec",),
    "RunPolicy": ("spec", "runPolicy"),
    "SchedulingPolicy": ("spec", "runPolicy", "schedulingPolicy"),
    "ElasticPolicy": ("spec", "elasticPolicy"),
    "RDZVConf": ("spec", "elasticPolicy", "rdzvConf", "[]"),
    "TrainingReplicaSpec": ("spec", "pytorchReplicaSpecs", "{}"),
    "EmbeddedPodTemplate": ("spec", "pytorchReplicaSpecs", "{}", "template"),
    "EmbeddedMetadata": ("spec", "pytorchReplicaSpecs", "{}", "template", "metadata"),
    "TrainingJobStatus": ("status",),
    "TrainingJobCondition": ("status", "conditions", "[]"),
    "TrainingReplicaStatus": ("status", "replicaStatuses", "{}"),
}


@pytest.mark.cluster
@pytest.mark.parametrize("kube", ["real"], indirect=True)
@pytest.mark.parametrize("name", TYPES)
def test_devcluster_knows_the_fields_of_the_real_definition(kube, path, name):
    knows_the_fields_of(kube, "pytorchjobs.kubeflow.org", TYPES[name], name)
