"""What only real processes can show of an autoscaler: the CPU that they use."""

from __future__ import annotations

import pytest
from devcluster_bed import Devcluster, Space

from tests.waiting import until

# Uses a sixth of a core: more than the target, which is 20 % of the requested 100m.
BUSY = """import time
while True:
    until = time.process_time() + 0.01
    while time.process_time() < until:
        pass
    time.sleep(0.05)
"""


@pytest.fixture
def space(tmp_path):
    made = Devcluster(tmp_path, "--autoscaler-interval", "0.5")
    yield Space(made, "busy")
    assert made.end() == 0


def test_busy_pods_get_company(space):
    container = {
        "name": "main",
        "image": "any:1",
        "command": ["python", "-c", BUSY],
        "resources": {"requests": {"cpu": "100m"}},
    }
    labels = {"app": "busy"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {
        "metadata": {"name": "busy"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    space.create("deployments", deployment, "apps")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 20}}
    hpas = f"/apis/autoscaling/v2/namespaces/{space.name}/horizontalpodautoscalers"
    spec = {"scaleTargetRef": target, "maxReplicas": 2, "metrics": [{"type": "Resource", "resource": metric}]}
    space.cluster.call("POST", hpas, {"metadata": {"name": "busy"}, "spec": spec})

    def grown():
        status = space.cluster.call("GET", f"{hpas}/busy")["status"]
        metrics = status.get("currentMetrics") or [{}]
        return status["desiredReplicas"] == 2 and metrics[0].get("resource")

    current = until(grown)["current"]
    assert current["averageUtilization"] > 20
    assert current["averageValue"]
    reasons = {event["reason"] for event in space.cluster.call("GET", f"{space.core}/events")["items"]}
    assert "SuccessfulRescale" in reasons
