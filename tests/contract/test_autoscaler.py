from __future__ import annotations

import pytest

from tests.waiting import until

from .kube import TOLERATE_ALL, deployment, fields, refusal

CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


@pytest.fixture
def autoscalers(kube, ns):
    path = f"/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"

    class Autoscalers:
        def create(self, **spec):
            body = {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}
            return kube.request("POST", path, body, query={"fieldValidation": "Strict"})

        def word(self, type_):
            found = kube.request("GET", f"{path}/web")["status"].get("conditions") or []
            return next(((c["status"], c["reason"], c["message"]) for c in found if c["type"] == type_), None)

        def deploy(self, **template):
            made = deployment("web", replicas=1, template={"tolerations": TOLERATE_ALL, **template})
            kube.apps.create_namespaced_deployment(ns, made)

    return Autoscalers()


def test_it_gets_its_defaults(autoscalers):
    made = autoscalers.create(behavior={"scaleDown": {"stabilizationWindowSeconds": 7}})
    spec = made["spec"]
    assert spec["minReplicas"] == 1
    default = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    assert spec["metrics"] == [{"type": "Resource", "resource": default}]
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert spec["behavior"]["scaleDown"] == {
        "stabilizationWindowSeconds": 7, "selectPolicy": "Max", "policies": [percent],
    }  # fmt: skip
    assert spec["behavior"]["scaleUp"]["policies"] == [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        percent,
    ]
    assert made["status"] == {"desiredReplicas": 0, "currentMetrics": None}


def test_without_a_target_it_cannot_scale(autoscalers):
    autoscalers.create()
    status, reason, message = until(lambda: autoscalers.word("AbleToScale"), seconds=60)
    assert (status, reason) == ("False", "FailedGetScale")
    assert message.endswith('current scale: deployments.apps "web" not found')


def test_without_a_metrics_server_it_says_that_nothing_is_measured(autoscalers):
    autoscalers.deploy(requests={"cpu": "100m"})
    autoscalers.create(metrics=[CPU])
    status, reason, message = until(lambda: autoscalers.word("ScalingActive"), seconds=60)
    assert (status, reason) == ("False", "FailedGetResourceMetric")
    assert (
        "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API" in message
    )


EXTERNAL = {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas"),
        ({"minReplicas": 4}, "spec.maxReplicas"),
        ({"minReplicas": 0}, "spec.minReplicas"),
        ({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}, "spec.scaleTargetRef.name"),
        ({"scaleTargetRef": {**TARGET, "apiVersion": ""}}, "spec.scaleTargetRef.apiVersion"),
        ({"metrics": [{"type": "External"}]}, "spec.metrics[0].external"),
        ({"metrics": [{"type": "Nothing"}]}, "spec.metrics[0].type"),
        (
            {"metrics": [{"type": "External", "external": {**EXTERNAL, "target": {"type": "Value"}}}]},
            "spec.metrics[0].external.target.averageValue",
        ),
        (
            {
                "metrics": [
                    {"type": "External", "external": {**EXTERNAL, "target": {"type": "Value", "value": "0"}}}
                ]
            },
            "spec.metrics[0].external.target.value",
        ),
        (
            {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 3601}}},
            "spec.behavior.scaleDown.stabilizationWindowSeconds",
        ),
        ({"behavior": {"scaleUp": {"selectPolicy": "Best"}}}, "spec.behavior.scaleUp.selectPolicy"),
        (
            {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 15}]}}},
            "spec.behavior.scaleUp.policies[0].value",
        ),
    ],
)
def test_nonsense_is_refused(autoscalers, spec, field):
    status = refusal(autoscalers.create, **spec)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith('HorizontalPodAutoscaler.autoscaling "web" is invalid: ')
    assert field in fields(status)


def test_a_quantity_is_one(autoscalers):
    target = {"type": "Value", "value": "many"}
    status = refusal(
        autoscalers.create, metrics=[{"type": "External", "external": {**EXTERNAL, "target": target}}]
    )
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert "quantities must match the regular expression" in status["message"]
