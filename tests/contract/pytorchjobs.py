"""What the cases about PyTorchJobs share."""

from __future__ import annotations

from tests.waiting import until_equal

from .kube import MERGE, pytorch_job

GROUP = "/apis/kubeflow.org/v1"
LABEL = "training.kubeflow.org/"
RUNS: dict[str, str] = {}
ENDS = {"BED_RUN_SECONDS": "1"}
FAILS = {**ENDS, "BED_EXIT_CODE": "1"}
ALL_RUN = {"Master": (1, RUNS), "Worker": (2, RUNS)}


class Jobs:
    """PyTorchJobs of one namespace."""

    def __init__(self, kube, namespace):
        self.kube, self.namespace = kube, namespace
        self.path = f"{GROUP}/namespaces/{namespace}/pytorchjobs"

    def create(self, roles, name="run", **more):
        return self.kube.request("POST", self.path, pytorch_job(name, roles, **more))

    def read(self, name="run"):
        return self.kube.request("GET", f"{self.path}/{name}")

    def patch(self, body, name="run"):
        return self.kube.request("PATCH", f"{self.path}/{name}", body, content_type=MERGE)

    def suspend(self, value):
        self.patch({"spec": {"runPolicy": {"suspend": value}}})

    def conditions(self):
        found = self.read().get("status", {}).get("conditions", [])
        return [(one["type"], one["status"], one["reason"], one["message"]) for one in found]

    def until(self, *types):
        """The job once its conditions are of these types in this order, newest last."""
        until_equal(lambda: tuple(one[0] for one in self.conditions()), types)
        return self.read()

    def replicas(self):
        kept = ("active", "succeeded", "failed")
        found = self.read().get("status", {}).get("replicaStatuses", {})
        return {role: {k: v for k, v in counts.items() if k in kept} for role, counts in found.items()}

    def objects(self, plural, name="run"):
        selector = f"{LABEL}job-name={name},{LABEL}operator-name=pytorchjob-controller"
        path = f"/api/v1/namespaces/{self.namespace}/{plural}"
        found = self.kube.request("GET", path, query={"labelSelector": selector})["items"]
        return {item["metadata"]["name"]: item for item in found}

    def pods(self, name="run"):
        return self.objects("pods", name)

    def phases(self):
        return {name: pod["status"]["phase"] for name, pod in self.pods().items()}

    def events(self):
        selector = "involvedObject.kind=PyTorchJob,involvedObject.name=run"
        found = self.kube.core.list_namespaced_event(self.namespace, field_selector=selector).items
        return {(item.type, item.reason, item.message) for item in found}
