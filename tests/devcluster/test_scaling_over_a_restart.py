"""A cluster that scales by its own Prometheus goes on after a restart."""

from __future__ import annotations

from devcluster_bed import Devcluster, Space

from tests.ports import reserved_port
from tests.waiting import until


def test_scaling_goes_on_after_a_restart(tmp_path):
    address = f"127.0.0.1:{reserved_port()}"
    made = Devcluster(
        tmp_path, "--prometheus", address, "--scrape-interval", "0.3", "--autoscaler-interval", "0.5"
    )
    space = Space(made, "kept")
    labels = {"app": "web"}
    container = {"name": "main", "image": "any:1", "command": ["sleep", "1000"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    space.create("deployments", {"metadata": {"name": "web"}, "spec": spec}, "apps")
    metadata = {"serverAddress": f"http://{address}", "query": "vector(2)", "threshold": "1"}
    scaled = f"/apis/keda.sh/v1alpha1/namespaces/{space.name}/scaledobjects"
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"name": "web"},
            "pollingInterval": 1,
            "cooldownPeriod": 1,
            "minReplicaCount": 0,
            "triggers": [{"type": "prometheus", "metadata": metadata}],
        },
    }
    made.call("POST", scaled, body)

    def replicas():
        path = f"/apis/apps/v1/namespaces/{space.name}/deployments/web"
        return made.call("GET", path)["spec"]["replicas"]

    until(lambda: replicas() == 2)
    assert made.end() == 0
    made.start()
    merge = "application/merge-patch+json"
    metadata["query"] = "vector(3)"
    made.call("PATCH", f"{scaled}/web", {"spec": {"triggers": body["spec"]["triggers"]}}, merge)
    until(lambda: replicas() == 3)
    metadata["query"] = "vector(0)"
    made.call("PATCH", f"{scaled}/web", {"spec": {"triggers": body["spec"]["triggers"]}}, merge)
    until(lambda: replicas() == 0)
    assert made.end() == 0
