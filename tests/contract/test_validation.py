from __future__ import annotations

import copy

import pytest

from .kube import GPU, config_map, deployment, fields, job, pod, refusal, unique

POD = pod("refused", limits={GPU: "1"})
JOB = job("refused")
DEPLOYMENT = deployment("refused")
SERVICE = {"metadata": {"name": "refused"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}
QUOTA = {"metadata": {"name": "refused"}, "spec": {"hard": {"pods": "1"}}}


def changed(body, path, value):
    """A copy with one field set; a path is dotted, numbers are list indexes."""
    made = copy.deepcopy(body)
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    place = made
    for key in parents:
        place = place.setdefault(key, {}) if isinstance(place, dict) else place[key]
    place[last] = value
    return made


CONTAINER = "spec/containers/0"
JOB_POD = "spec/template/spec"
FAIL_ON = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}
FAIL_ELSEWHERE = {
    "action": "FailJob",
    "onExitCodes": {"operator": "In", "values": [1], "containerName": "absent"},
}
NO_SELECTOR_MATCH = {"app": "another"}

REFUSED = {
    "a name in capitals": ("pod", POD, "metadata/name", "Refused", "metadata.name"),
    "a label value with a space": ("pod", POD, "metadata/labels", {"a": "b c"}, "metadata.labels"),
    "a label key with two slashes": ("pod", POD, "metadata/labels", {"a/b/c": "d"}, "metadata.labels"),
    "no containers": ("pod", POD, "spec/containers", [], "spec.containers"),
    "no image": ("pod", POD, f"{CONTAINER}/image", "", "spec.containers[0].image"),
    "a container name in capitals": ("pod", POD, f"{CONTAINER}/name", "Main", "spec.containers[0].name"),
    "a GPU request without a limit": (
        "pod", POD, f"{CONTAINER}/resources", {"requests": {GPU: "1"}}, "spec.containers[0].resources.limits",
    ),
    "a GPU request unlike its limit": (
        "pod", POD, f"{CONTAINER}/resources", {"requests": {GPU: "1"}, "limits": {GPU: "2"}},
        "spec.containers[0].resources.requests",
    ),
    "half a GPU": (
        "pod", POD, f"{CONTAINER}/resources", {"limits": {GPU: "500m"}},
        f"spec.containers[0].resources.limits[{GPU}]",
    ),
    "more CPU asked for than its limit": (
        "pod", POD, f"{CONTAINER}/resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        "spec.containers[0].resources.requests",
    ),
    "an unknown restart policy": ("pod", POD, "spec/restartPolicy", "Sometimes", "spec.restartPolicy"),
    "a Job that restarts always": ("job", JOB, f"{JOB_POD}/restartPolicy", "Always", "spec.template.spec.restartPolicy"),
    "a negative backoffLimit": ("job", JOB, "spec/backoffLimit", -1, "spec.backoffLimit"),
    "a negative TTL": ("job", JOB, "spec/ttlSecondsAfterFinished", -1, "spec.ttlSecondsAfterFinished"),
    "a failure rule for exit code 0": (
        "job", JOB, "spec/podFailurePolicy", {"rules": [FAIL_ON]},
        "spec.podFailurePolicy.rules[0].onExitCodes.values[0]",
    ),
    "a failure rule for an absent container": (
        "job", JOB, "spec/podFailurePolicy", {"rules": [FAIL_ELSEWHERE]},
        "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
    ),
    "a selector that misses its own pods": (
        "deployment", DEPLOYMENT, "spec/selector/matchLabels", NO_SELECTOR_MATCH, "spec.template.metadata.labels",
    ),
    "negative replicas": ("deployment", DEPLOYMENT, "spec/replicas", -1, "spec.replicas"),
    "a roll-out that may move nothing": (
        "deployment", DEPLOYMENT, "spec/strategy",
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
        "spec.strategy.rollingUpdate.maxUnavailable",
    ),
    "a port above 65535": ("service", SERVICE, "spec/ports/0/port", 65536, "spec.ports[0].port"),
    "a service name with a dot": ("service", SERVICE, "metadata/name", "a.b", "metadata.name"),
    "a negative quota": ("resource_quota", QUOTA, "spec/hard", {"pods": "-1"}, "spec.hard[pods]"),
}  # fmt: skip


TEXTS = {
    "a GPU request without a limit": "Limit must be set for non overcommitable resources",
    "a GPU request unlike its limit": f"must be equal to {GPU} limit of 2",
}


def create(kube, kind):
    api = {"job": kube.batch, "deployment": kube.apps}.get(kind, kube.core)
    return getattr(api, f"create_namespaced_{kind}")


@pytest.mark.parametrize("case", REFUSED)
def test_the_server_refuses_and_names_the_field(kube, shared_ns, case):
    kind, body, path, value, field = REFUSED[case]
    status = refusal(create(kube, kind), shared_ns, changed(body, path, value))
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert field in fields(status)
    assert field in status["message"]
    assert TEXTS.get(case, "") in status["message"]


def test_a_gpu_limit_alone_becomes_the_request(kube, ns):
    made = kube.core.create_namespaced_pod(ns, pod("defaulted", limits={GPU: "1"}))
    assert made.spec.containers[0].resources.requests == {GPU: "1"}


def test_every_wrong_field_is_a_cause(kube, shared_ns):
    body = changed(changed(POD, "metadata/name", "Bad Name"), "spec/containers/0/image", "")
    status = refusal(kube.core.create_namespaced_pod, shared_ns, body)
    assert {"metadata.name", "spec.containers[0].image"} <= fields(status)
    assert {cause["reason"] for cause in status["details"]["causes"]} >= {
        "FieldValueInvalid",
        "FieldValueRequired",
    }
    assert status["details"]["kind"] == "Pod"


def test_a_value_of_the_wrong_type_is_bad_request(kube, shared_ns):
    body = changed(DEPLOYMENT, "spec/replicas", "three")
    path = f"/apis/apps/v1/namespaces/{shared_ns}/deployments"
    status = refusal(kube.request, "POST", path, body)
    assert (status["code"], status["reason"]) == (400, "BadRequest")


def test_a_body_of_another_kind_is_bad_request(kube, shared_ns):
    body = {**config_map("a"), "kind": "Secret"}
    status = refusal(kube.core.create_namespaced_config_map, shared_ns, body)
    assert (status["code"], status["reason"]) == (400, "BadRequest")


IMMUTABLE = {
    "a Job's template": (
        "job", job, {"spec": {"template": {"spec": {"priorityClassName": "other"}}}}, "spec.template",
    ),
    "a Job's completions": ("job", job, {"spec": {"completions": 3}}, "spec.completions"),
    "a Deployment's selector": (
        "deployment", deployment,
        {
            "spec": {
                "selector": {"matchLabels": {"app": "b"}},
                "template": {"metadata": {"labels": {"app": "b"}}},
            }
        },
        "spec.selector",
    ),
    "a pod's node selector": ("pod", pod, {"spec": {"nodeSelector": {"a": "b"}}}, "spec"),
}  # fmt: skip


@pytest.mark.parametrize("case", IMMUTABLE)
def test_an_immutable_field_stays(kube, ns, case):
    kind, make, patch, field = IMMUTABLE[case]
    name = unique("fixed")
    create(kube, kind)(ns, make(name))
    api = {"job": kube.batch, "deployment": kube.apps}.get(kind, kube.core)
    status = refusal(getattr(api, f"patch_namespaced_{kind}"), name, ns, patch)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert field in fields(status)


def test_a_secret_may_be_immutable(kube, shared_ns):
    name = unique("sealed")
    body = {"metadata": {"name": name}, "stringData": {"a": "1"}, "immutable": True}
    made = kube.core.create_namespaced_secret(shared_ns, body)
    assert made.data == {"a": "MQ=="}
    patch = {"stringData": {"a": "2"}}
    status = refusal(kube.core.patch_namespaced_secret, name, shared_ns, patch)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert fields(status) == {"data"}
