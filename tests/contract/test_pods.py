from __future__ import annotations

import pytest

from tests.waiting import until

from .kube import JSON_PATCH, MERGE, condition, fields, gone, holds, pod, refusal


@pytest.fixture
def ended(kube, ns):
    def ended(bed):
        kube.core.create_namespaced_pod(ns, pod("p", {"BED_RUN_SECONDS": "0", **bed}))

        def over():
            seen = kube.core.read_namespaced_pod("p", ns)
            return seen.status.phase in {"Succeeded", "Failed"} and seen

        return until(over)

    return ended


def test_a_new_pod_is_pending_with_its_defaults_and_waits_as_container_creating(kube, ns):
    made = kube.core.create_namespaced_pod(ns, pod("p", {"BED_START_SECONDS": "60"}))
    assert (made.status.phase, made.status.qos_class) == ("Pending", "BestEffort")
    assert (made.spec.termination_grace_period_seconds, made.spec.dns_policy) == (30, "ClusterFirst")
    assert made.spec.scheduler_name == "default-scheduler"
    assert made.spec.service_account_name == "default"
    assert made.spec.containers[0].image_pull_policy == "IfNotPresent"
    assert waiting(kube, ns).reason == "ContainerCreating"
    assert kube.core.read_namespaced_pod("p", ns).status.phase == "Pending"


def waiting(kube, ns):
    """What the container of p waits for, as soon as it does."""

    def waits():
        statuses = kube.core.read_namespaced_pod("p", ns).status.container_statuses
        return statuses and statuses[0].state.waiting

    return until(waits)


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "100m"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
    ids=["guaranteed", "burstable", "gpu-alone"],
)
def test_resources_decide_the_quality_of_service(kube, ns, resources, qos):
    assert kube.core.create_namespaced_pod(ns, pod("p", **resources)).status.qos_class == qos


def test_a_running_pod_is_ready_and_has_an_address(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p"))
    until(lambda: kube.core.read_namespaced_pod("p", ns).status.phase == "Running")
    seen = kube.core.read_namespaced_pod("p", ns)
    assert holds(seen, "Ready")
    assert holds(seen, "ContainersReady")
    assert holds(seen, "Initialized")
    assert seen.status.pod_ip
    assert seen.status.start_time
    (container,) = seen.status.container_statuses
    assert (container.name, container.ready, container.restart_count) == ("main", True, 0)
    assert container.state.running.started_at


def test_a_pod_that_ends_well_succeeded(ended):
    seen = ended({})
    terminated = seen.status.container_statuses[0].state.terminated
    assert seen.status.phase == "Succeeded"
    assert (terminated.exit_code, terminated.reason) == (0, "Completed")
    assert terminated.finished_at >= terminated.started_at
    assert condition(seen, "Ready").status == "False"
    assert condition(seen, "Ready").reason == "PodCompleted"


@pytest.mark.parametrize(
    ("bed", "code", "reason"),
    [
        ({"BED_EXIT_CODE": "1"}, 1, "Error"),
        ({"BED_EXIT_CODE": "3"}, 3, "Error"),
        ({"BED_EXIT_CODE": "139"}, 139, "Error"),
        ({"BED_OOM": "true"}, 137, "OOMKilled"),
    ],
)
def test_a_pod_that_ends_badly_says_its_exit_code_and_why(ended, bed, code, reason):
    seen = ended(bed)
    terminated = seen.status.container_statuses[0].state.terminated
    assert seen.status.phase == "Failed"
    assert (terminated.exit_code, terminated.reason) == (code, reason)


def test_an_image_that_does_not_exist_backs_off(kube, ns):
    image = "registry.example.test/does-not-exist:1"
    kube.core.create_namespaced_pod(ns, pod("p", image=image))
    seen = waiting(kube, ns)
    assert seen.reason == "ImagePullBackOff"
    assert image in seen.message
    assert kube.core.read_namespaced_pod("p", ns).status.phase == "Pending"


def test_a_deleted_pod_is_terminating_and_then_gone(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", {"BED_STOP_SECONDS": "1"}))
    until(lambda: kube.core.read_namespaced_pod("p", ns).status.phase == "Running")
    answer = kube.raw(kube.core.delete_namespaced_pod, "p", ns, grace_period_seconds=5)
    assert answer["kind"] == "Pod"
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 5
    assert kube.core.read_namespaced_pod("p", ns).metadata.deletion_timestamp
    until(gone(kube.core.read_namespaced_pod, "p", ns))


def test_a_grace_period_of_zero_deletes_at_once(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", {"BED_STOP_SECONDS": "60"}))
    until(lambda: kube.core.read_namespaced_pod("p", ns).status.phase == "Running")
    kube.core.delete_namespaced_pod("p", ns, grace_period_seconds=0)
    assert gone(kube.core.read_namespaced_pod, "p", ns)()


def test_a_pod_without_a_node_is_deleted_at_once(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", schedulingGates=[{"name": "contract.test/gate"}]))
    kube.core.delete_namespaced_pod("p", ns)
    assert gone(kube.core.read_namespaced_pod, "p", ns)()


def test_the_status_of_a_pod_is_patched_by_its_subresource(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", {"BED_START_SECONDS": "60"}))
    marked = {"type": "contract.test/Marked", "status": "True"}
    kube.core.patch_namespaced_pod_status("p", ns, {"status": {"conditions": [marked]}})
    assert holds(kube.core.read_namespaced_pod("p", ns), "contract.test/Marked")
    ignored = [{"op": "add", "path": "/status/message", "value": "ignored"}]
    kube.core.patch_namespaced_pod("p", ns, ignored, _content_type=JSON_PATCH)
    assert kube.core.read_namespaced_pod("p", ns).status.message is None


def test_the_image_of_a_pod_may_change_and_little_else(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", {"A": "1"}))
    change = {"spec": {"containers": [{"name": "main", "image": "registry.example.test/trainer:2"}]}}
    seen = kube.core.patch_namespaced_pod("p", ns, change)
    assert seen.spec.containers[0].image.endswith(":2")
    change = {"spec": {"containers": [{"name": "main", "command": ["other"]}]}}
    status = refusal(kube.core.patch_namespaced_pod, "p", ns, change)
    assert fields(status) == {"spec"}
    assert "pod updates may not change fields other than" in status["message"]


def eviction(name):
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


def test_an_eviction_deletes_the_pod_and_says_why(kube, ns):
    body = pod("p")
    body["metadata"]["finalizers"] = ["contract.test/hold"]
    kube.core.create_namespaced_pod(ns, body)
    until(lambda: kube.core.read_namespaced_pod("p", ns).status.phase == "Running")
    kube.core.create_namespaced_pod_eviction("p", ns, eviction("p"))
    seen = kube.core.read_namespaced_pod("p", ns)
    assert seen.metadata.deletion_timestamp
    disrupted = condition(seen, "DisruptionTarget")
    assert (disrupted.status, disrupted.reason) == ("True", "EvictionByEvictionAPI")
    assert disrupted.message == "Eviction API: evicting"
    kube.core.patch_namespaced_pod("p", ns, {"metadata": {"finalizers": None}}, _content_type=MERGE)
    until(gone(kube.core.read_namespaced_pod, "p", ns))


def test_a_disruption_budget_refuses_an_eviction(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", labels={"app": "served"}))
    until(lambda: kube.core.read_namespaced_pod("p", ns).status.phase == "Running")
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "served"}}},
    }
    kube.policy.create_namespaced_pod_disruption_budget(ns, budget)

    def counted():
        seen = kube.policy.read_namespaced_pod_disruption_budget("b", ns)
        return seen.status.current_healthy == 1 and seen

    seen = until(counted)
    assert (seen.status.disruptions_allowed, seen.status.desired_healthy) == (0, 1)
    status = refusal(kube.core.create_namespaced_pod_eviction, "p", ns, eviction("p"))
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }
    ]
    assert kube.core.read_namespaced_pod("p", ns).metadata.deletion_timestamp is None
    kube.core.delete_namespaced_pod("p", ns)


def test_an_eviction_of_an_absent_pod_is_not_found(kube, ns):
    status = refusal(kube.core.create_namespaced_pod_eviction, "absent", ns, eviction("absent"))
    assert (status["code"], status["reason"]) == (404, "NotFound")
