from __future__ import annotations

import json

import pytest
from kubernetes.client.exceptions import ApiException

from .definitions import knows_the_fields_of
from .kube import fields, refusal
from .scaledobjects import NAME

PROMETHEUS = {
    "type": "prometheus",
    "metadata": {"serverAddress": "http://x", "query": "up", "threshold": "1"},
}


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"pollingInterval": 0}, "spec.pollingInterval", "should be greater than or equal to 1"),
        ({"cooldownPeriod": -1}, "spec.cooldownPeriod", "should be greater than or equal to 0"),
        ({"maxReplicaCount": 0}, "spec.maxReplicaCount", "should be greater than or equal to 1"),
        ({"minReplicaCount": "1"}, "spec.minReplicaCount", 'must be of type integer: "string"'),
        ({"minReplicaCount": 5}, "spec", "minReplicaCount must be less than or equal to maxReplicaCount"),
        ({"triggers": []}, "spec.triggers", "should have at least 1 items"),
        ({"triggers": [{"type": "cron"}]}, "spec.triggers[0].metadata", "Required value"),
        ({"triggers": [{"type": "", "metadata": {}}]}, "spec.triggers[0].type", "at least 1 chars long"),
        ({"triggers": None}, "spec.triggers", "Required value"),
        ({"scaleTargetRef": {}}, "spec.scaleTargetRef.name", "Required value"),
        ({"fallback": {"replicas": 1}}, "spec.fallback.failureThreshold", "Required value"),
        (
            {"fallback": {"failureThreshold": 1, "replicas": 1, "behavior": "double"}},
            "spec.fallback.behavior",
            'supported values: "static", "currentReplicas", ',
        ),
    ],
)
def test_the_schema_refuses(scaled, spec, field, said):
    status = refusal(scaled.create, **spec)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith(f'ScaledObject.keda.sh "{NAME}" is invalid: ')
    assert field in fields(status)
    assert said in status["message"]


def test_an_unknown_field_is_refused_strictly(scaled):
    status = refusal(scaled.create, maxReplicas=3)
    assert status["code"] == 400
    assert 'unknown field "spec.maxReplicas"' in status["message"]


def test_the_behavior_of_the_fallback_has_a_default(scaled):
    made = scaled.create(fallback={"failureThreshold": 1, "replicas": 1})
    assert made["spec"]["fallback"]["behavior"] == "static"


@pytest.fixture
def webhook(kube) -> None:
    """KEDA's admission webhook may be left out of a real installation."""
    if kube.name == "devcluster":
        return
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    names = {hook["name"] for each in kube.request("GET", path)["items"] for hook in each.get("webhooks", ())}
    if "vscaledobject.kb.io" not in names:
        pytest.skip("this KEDA has no admission webhook")


def denial(scaled, **spec) -> str:
    with pytest.raises(ApiException) as caught:
        scaled.create(**spec)
    status = json.loads(caught.value.body)
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    prefix = 'admission webhook "vscaledobject.kb.io" denied the request: '
    assert status["message"].startswith(prefix)
    return str(status["message"].removeprefix(prefix))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"scaleTargetRef": {"name": NAME, "kind": "Nothing"}}, "no matches for kind"),
        ({"idleReplicaCount": 1}, "IdleReplicaCount=1 must be less than MinReplicaCount=1"),
        (
            {"triggers": [{**PROMETHEUS, "name": "load"}] * 2},
            'triggerName "load" is defined multiple times in the ScaledObject/ScaledJob, but it must be unique',
        ),
        (
            {"triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}]},
            "the scaledobject has a cpu trigger but the container main doesn't have the cpu request defined",
        ),
    ],
)
def test_the_webhook_denies(scaled, webhook, spec, said):
    scaled.deploy()
    assert denial(scaled, **spec).startswith(said)


def test_a_second_master_of_the_same_workload_is_denied(scaled, webhook):
    scaled.deploy()
    scaled.create()
    body = scaled.body()
    body["metadata"]["name"] = "second"
    status = refusal(scaled.kube.request, "POST", scaled.path, body)
    text = (
        f"the workload '{NAME}' of type 'apps/v1.Deployment' is already managed by the ScaledObject '{NAME}'"
    )
    assert status["message"].endswith(text)


def test_a_name_too_long_for_its_autoscaler_is_denied(scaled, webhook):
    scaled.deploy()
    body = scaled.body()
    body["metadata"]["name"] = "w" * 55
    status = refusal(scaled.kube.request, "POST", scaled.path, body)
    assert "derived from scaledobject is 64 characters long; must be no more than 63" in status["message"]


TYPES = {
    "ScaledObjectSpec": ("spec",),
    "ScaleTarget": ("spec", "scaleTargetRef"),
    "ScaleTriggers": ("spec", "triggers", "[]"),
    "AuthenticationRef": ("spec", "triggers", "[]", "authenticationRef"),
    "Fallback": ("spec", "fallback"),
    "AdvancedConfig": ("spec", "advanced"),
    "ScalingModifiers": ("spec", "advanced", "scalingModifiers"),
    "HorizontalPodAutoscalerConfig": ("spec", "advanced", "horizontalPodAutoscalerConfig"),
    "ScaledObjectStatus": ("status",),
    "ScaledObjectCondition": ("status", "conditions", "[]"),
    "HealthStatus": ("status", "health", "{}"),
    "GroupVersionKindResource": ("status", "scaleTargetGVKR"),
    "TriggerActivityStatus": ("status", "triggersActivity", "{}"),
}


@pytest.mark.cluster
@pytest.mark.parametrize("kube", ["real"], indirect=True)
@pytest.mark.parametrize("name", TYPES)
def test_devcluster_knows_the_fields_of_the_real_definition(kube, name):
    knows_the_fields_of(kube, "scaledobjects.keda.sh", TYPES[name], name)
