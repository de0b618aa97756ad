"""A job's next pod comes after ten seconds: the jobs of this file wait side by side."""

from __future__ import annotations

import pytest

from tests.waiting import until

from .conftest import make_namespace
from .kube import condition, holds, job

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
IGNORE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


class Jobs:
    def __init__(self, kube, namespace):
        self.kube, self.namespace = kube, namespace
        self.first = {}

    def create(self, name, *args, **spec):
        self.kube.batch.create_namespaced_job(self.namespace, job(name, *args, **spec))
        self.first[name] = until(lambda: self.pods(name))[0]

    def read(self, name):
        return self.kube.batch.read_namespaced_job(name, self.namespace)

    def pods(self, name):
        found = self.kube.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={name}")
        return sorted(found.items, key=lambda item: item.metadata.creation_timestamp)

    def replaced(self, name):
        uid = self.first[name].metadata.uid
        return until(lambda: [pod for pod in self.pods(name) if pod.metadata.uid != uid], seconds=45)

    def running(self, name):
        until(lambda: self.pods(name)[0].status.phase == "Running")
        return self.first[name].metadata.name


@pytest.fixture(scope="module")
def jobs(kube):
    namespace = make_namespace(kube)
    jobs = Jobs(kube, namespace)
    jobs.create("failing", {"BED_RUN_SECONDS": "0", "BED_EXIT_CODE": "1"}, backoffLimit=1)
    jobs.create("disrupted", podFailurePolicy=IGNORE)
    jobs.create("robbed", backoffLimit=2)
    failed = {"status": {"phase": "Failed", "conditions": [DISRUPTED]}}
    kube.core.patch_namespaced_pod_status(jobs.running("disrupted"), namespace, failed)
    kube.core.delete_namespaced_pod(jobs.running("robbed"), namespace)
    yield jobs
    kube.core.delete_namespace(namespace)


def test_a_retry_counts_and_comes_after_a_pause(jobs):
    jobs.replaced("failing")

    def failed():
        seen = jobs.read("failing")
        return holds(seen, "Failed") and seen

    seen = until(failed)
    assert condition(seen, "Failed").reason == "BackoffLimitExceeded"
    assert seen.status.failed == 2
    first, second = (pod.metadata.creation_timestamp for pod in jobs.pods("failing"))
    assert (second - first).total_seconds() >= 9


def test_an_ignored_disruption_costs_no_retry(jobs):
    jobs.replaced("disrupted")
    seen = jobs.read("disrupted")
    assert condition(seen, "Failed") is None
    assert not seen.status.failed


def test_a_deleted_pod_is_replaced(jobs):
    jobs.replaced("robbed")
    assert condition(jobs.read("robbed"), "Failed") is None
