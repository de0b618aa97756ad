"""What is asked of fields: the table names what there is, and devcluster says what is wrong, or what it does not serve."""

from __future__ import annotations

import copy

import pytest

from devcluster import defaults, validation
from devcluster.errors import ApiError
from devcluster.kinds import AUTOSCALER, JOB, POD, SCALED_OBJECT
from devcluster.schema import FIELDS, TYPES
from devcluster.validation.formats import FORMATS
from tests.tables import each_row

OF_FIELDS = {
    "required", "not_empty", "minimum", "maximum", "positive", "enum", "format", "min_items", "min_length", "unique",
    "unserved", "default", "schema_default",
}  # fmt: skip
POD_BODY = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "any:1"}]}}


@each_row("name", FIELDS)
def test_the_table_names_types_fields_and_words_that_there_are(name):
    fields = dict(FIELDS[name])
    assert set(fields.pop("one_of", ())) <= set(TYPES[name])
    assert set(fields.pop("served", ())) <= set(TYPES[name])
    assert set(fields.pop("merge_key", ())) <= set(TYPES[name])
    fields.pop("unserved", None)
    assert set(fields) <= set(TYPES[name])
    for rules in fields.values():
        assert set(rules) <= OF_FIELDS
        assert rules.get("format", "label") in FORMATS
        inner = TYPES.get(TYPES[name][next(key for key in fields if fields[key] is rules)][5:-1], {})
        assert rules.get("unique") is None or rules["unique"] in inner


def faults(kind, body, path, value):
    """With one field set; a path has slashes, numbers are list indexes."""
    made = copy.deepcopy(body)
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    place = made
    for key in parents:
        place = place.setdefault(key, {}) if isinstance(place, dict) else place[key]
    place[last] = value
    defaults.fill(kind, made)
    return [str(fault) for fault in validation.on_create(kind, made)]


MAIN = "spec/containers/0"
TWICE = [{"name": "v"}, {"name": "v"}]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec/volumes", TWICE, 'spec.volumes[1].name: Duplicate value: "v"'),
        ("spec/containers", [], "spec.containers: Required value"),
        (f"{MAIN}/env", [{"name": "a=b"}], "spec.containers[0].env[0].name: Invalid value: "),
        (f"{MAIN}/ports", [{"containerPort": 70000}], "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be"),
        (f"{MAIN}/volumeMounts", [{"name": "x", "mountPath": "/a"}], 'spec.containers[0].volumeMounts[0].name: Not found: "x"'),
        (f"{MAIN}/livenessProbe", {}, "spec.containers[0].livenessProbe: Required value: must specify a handler type"),
        (
            f"{MAIN}/startupProbe", {"tcpSocket": {"port": 1}, "periodSeconds": -1},
            "spec.containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("spec/tolerations", [{"key": "a", "operator": "Is"}], 'spec.tolerations[0].operator: Unsupported value: "Is": '),
        (f"{MAIN}/readinessProbe", {"httpGet": {"path": "/"}}, "spec.containers[0].readinessProbe.httpGet.port: Required"),
        ("spec/schedulingGates", [{}], "spec.schedulingGates[0].name: Required value"),
        ("spec/tolerations", [{"value": "a"}], "spec.tolerations[0].operator: Invalid value: "),
        ("metadata/ownerReferences", [{"kind": "Job", "name": "a", "uid": "u"}], "metadata.ownerReferences[0].apiVersion: Required"),
        (f"{MAIN}/resources", {"limits": {"cpu": "some"}}, "spec.containers[0].resources.limits[cpu]: Invalid value: "),
        (f"{MAIN}/resources", {"limits": {"gpu": "1"}}, "must be a standard resource type or fully qualified"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_pod_is_said_once(path, value, said):
    (found,) = {fault for fault in faults(POD, POD_BODY, path, value) if "requests" not in fault}
    assert said in found


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec/volumes", [{"name": "a", "nfs": {}}], "the volume source nfs (spec.volumes[0].nfs)"),
        ("spec/hostNetwork", True, "host namespaces (spec.hostNetwork)"),
        ("spec/activeDeadlineSeconds", 5, "activeDeadlineSeconds of a pod"),
        (f"{MAIN}/restartPolicy", "Always", "sidecars (spec.containers[0].restartPolicy)"),
        (f"{MAIN}/lifecycle", {"postStart": {"exec": {}}}, "postStart hooks"),
        (f"{MAIN}/lifecycle", {"preStop": {"httpGet": {"port": 1}}}, "HTTP hooks"),
        (f"{MAIN}/lifecycle", {"preStop": {"exec": {"command": ["a"]}}}, "hooks with a command"),
        (f"{MAIN}/readinessProbe", {"grpc": {"port": 1}}, "gRPC probes"),
        (f"{MAIN}/livenessProbe", {"exec": {"command": ["a"]}}, "probes with a command"),
        (f"{MAIN}/envFrom", [{"configMapRef": {"name": "a"}}], "envFrom of a container"),
        (f"{MAIN}/volumeMounts", [{"name": "v", "mountPath": "/a", "subPath": "b"}], "subPath of a mount"),
        (f"{MAIN}/ports", [{"containerPort": 80, "hostPort": 80}], "host ports"),
        (
            f"{MAIN}/env",
            [{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
            "resourceFieldRef",
        ),
    ],
)
def test_what_is_not_served_is_named(path, value, said):
    with pytest.raises(ApiError) as caught:
        faults(POD, POD_BODY, path, value)
    assert caught.value.code == 501
    assert caught.value.message.startswith("devcluster does not implement ")
    assert said in caught.value.message


def test_a_job_may_not_have_what_is_not_served():
    body = {
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {**POD_BODY["spec"], "restartPolicy": "Never"}}},
    }
    assert faults(JOB, body, "spec/parallelism", 1) == []
    with pytest.raises(ApiError, match="backoffLimitPerIndex of a Job"):
        faults(JOB, body, "spec/backoffLimitPerIndex", 1)


def test_a_metric_of_an_autoscaler_has_one_source():
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": ref}}
    external = {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}
    good = {"type": "External", "external": external}
    assert faults(AUTOSCALER, body, "spec/metrics", [good]) == []
    (found,) = faults(AUTOSCALER, body, "spec/metrics", [{"type": "External"}])
    assert found.startswith("spec.metrics[0].external: Required value")
    more = {"resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    (found,) = faults(AUTOSCALER, body, "spec/metrics", [good | more])
    assert found.startswith("spec.metrics[0].resource: Forbidden")
    with pytest.raises(ApiError, match=r"spec\.metrics\[0\]\.type Pods"):
        faults(AUTOSCALER, body, "spec/metrics", [{"type": "Pods"}])


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "spec/fallback",
            {"failureThreshold": 1, "replicas": 1, "behavior": "currentReplicas"},
            "spec.fallback.behavior currentReplicas",
        ),
        ("spec/triggers/0/metadata/containerName", "main", "containerName of a cpu trigger"),
        ("spec/triggers/0/type", "kafka", "spec.triggers[0].type kafka"),
        ("spec/advanced", {"scalingModifiers": {"formula": "a"}}, "scalingModifiers of a ScaledObject"),
    ],
)
def test_what_a_scaled_object_may_not_have_is_named(path, value, said):
    triggers = [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}]
    body = {"metadata": {"name": "s"}, "spec": {"scaleTargetRef": {"name": "web"}, "triggers": triggers}}
    assert faults(SCALED_OBJECT, body, "spec/minReplicaCount", 1) == []
    with pytest.raises(ApiError) as caught:
        faults(SCALED_OBJECT, body, path, value)
    assert (caught.value.code, caught.value.message) == (
        501,
        f"devcluster does not implement {said}"
        + " (spec.advanced.scalingModifiers.formula)" * ("Modifiers" in said),
    )
