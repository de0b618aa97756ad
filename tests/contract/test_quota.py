from __future__ import annotations

import pytest
from kubernetes.client.exceptions import ForbiddenException

from tests.waiting import until, until_equal

from .kube import GPU, MERGE, condition, config_map, deployment, holds, job, pod, refusal


@pytest.fixture
def limit(kube, ns):
    """A quota named team, once the cluster has counted it and admission knows it."""

    def create(name, hard):
        body = {"metadata": {"name": name}, "spec": {"hard": hard}}
        kube.core.create_namespaced_resource_quota(ns, body)

    def canary_is_refused():
        try:
            kube.core.create_namespaced_secret(ns, {"metadata": {"name": "canary"}}, dry_run="All")
        except ForbiddenException:
            return True
        return False

    def limit(hard):
        create("team", hard)
        until(lambda: (kube.core.read_namespaced_resource_quota("team", ns).status.hard or {}) == hard)
        # A busy server's admission learns of quotas late, but in order.
        create("canary", {"count/secrets": "0"})
        until(canary_is_refused)

    return limit


def used(kube, ns):
    return kube.core.read_namespaced_resource_quota("team", ns).status.used


def test_the_refusal_names_requested_used_and_limited(kube, ns, limit):
    limit({f"requests.{GPU}": "3"})
    kube.core.create_namespaced_pod(ns, pod("first", limits={GPU: "2"}))
    status = refusal(kube.core.create_namespaced_pod, ns, pod("second", limits={GPU: "2"}))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        f'pods "second" is forbidden: exceeded quota: team, requested: requests.{GPU}=2, '
        f"used: requests.{GPU}=2, limited: requests.{GPU}=3"
    )
    assert status["details"] == {"name": "second", "kind": "pods"}


def test_several_exceeded_resources_are_named_together(kube, ns, limit):
    limit({"requests.cpu": "1", "pods": "0"})
    status = refusal(kube.core.create_namespaced_pod, ns, pod("p", requests={"cpu": "1500m"}))
    assert status["message"].endswith(
        "exceeded quota: team, requested: pods=1,requests.cpu=1500m, "
        "used: pods=0,requests.cpu=0, limited: pods=0,requests.cpu=1"
    )


def test_status_counts_what_is_used_and_frees_what_ends(kube, ns, limit):
    limit({f"requests.{GPU}": "4", "pods": "10"})
    assert used(kube, ns) == {f"requests.{GPU}": "0", "pods": "0"}
    kube.core.create_namespaced_pod(ns, pod("holds", limits={GPU: "1"}))
    kube.core.create_namespaced_pod(ns, pod("ends", {"BED_RUN_SECONDS": "0"}, limits={"cpu": "1"}))
    kube.core.create_namespaced_pod(ns, pod("goes", limits={GPU: "2"}))
    until_equal(lambda: used(kube, ns)[f"requests.{GPU}"], "3")
    kube.core.delete_namespaced_pod("goes", ns, grace_period_seconds=0)
    until_equal(lambda: used(kube, ns), {f"requests.{GPU}": "1", "pods": "1"})


def test_a_pending_pod_counts(kube, ns, limit):
    limit({f"requests.{GPU}": "500"})
    kube.core.create_namespaced_pod(ns, pod("too-large", limits={GPU: "499"}))
    until_equal(lambda: used(kube, ns), {f"requests.{GPU}": "499"})


def test_a_limited_resource_must_be_given(kube, ns, limit):
    limit({"limits.cpu": "4", "requests.memory": "4Gi"})
    status = refusal(kube.core.create_namespaced_pod, ns, pod("p"))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'pods "p" is forbidden: failed quota: team: must specify '
        "limits.cpu for: main; requests.memory for: main"
    )


def test_a_gpu_key_without_the_prefix_is_never_counted(kube, ns):
    kube.core.create_namespaced_resource_quota(
        ns, {"metadata": {"name": "team"}, "spec": {"hard": {f"limits.{GPU}": "0", "pods": "5"}}}
    )
    until(lambda: (kube.core.read_namespaced_resource_quota("team", ns).status.used or {}).get("pods"))
    assert kube.core.create_namespaced_pod(ns, pod("p", limits={GPU: "1"})).metadata.uid


def test_objects_are_counted_too(kube, ns, limit):
    limit({"count/jobs.batch": "1"})
    kube.batch.create_namespaced_job(ns, job("first", suspend=True))
    until_equal(lambda: used(kube, ns), {"count/jobs.batch": "1"})
    status = refusal(kube.batch.create_namespaced_job, ns, job("second", suspend=True))
    assert (
        "exceeded quota: team, requested: count/jobs.batch=1, used: count/jobs.batch=1, "
        "limited: count/jobs.batch=1" in status["message"]
    )


def test_a_job_is_accepted_and_its_refused_pod_is_an_event(kube, ns, limit):
    limit({f"requests.{GPU}": "1"})
    made = kube.batch.create_namespaced_job(ns, job("run", template={"limits": {GPU: "2"}}))

    def told():
        selector = f"involvedObject.uid={made.metadata.uid},reason=FailedCreate"
        return kube.core.list_namespaced_event(ns, field_selector=selector).items

    event = until(told)[0]
    assert event.type == "Warning"
    assert event.source.component == "job-controller"
    assert event.message.startswith('Error creating: pods "run-')
    assert event.message.endswith(
        f"is forbidden: exceeded quota: team, requested: requests.{GPU}=2, "
        f"used: requests.{GPU}=0, limited: requests.{GPU}=1"
    )
    assert not kube.batch.read_namespaced_job("run", ns).status.active


def test_a_deployment_says_replica_failure(kube, ns, limit):
    limit({"pods": "1"})
    kube.apps.create_namespaced_deployment(ns, deployment("served", replicas=2))

    def failing():
        seen = kube.apps.read_namespaced_deployment("served", ns)
        return holds(seen, "ReplicaFailure") and condition(seen, "ReplicaFailure")

    failure = until(failing)
    assert failure.reason == "FailedCreate"
    assert "exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1" in failure.message
    (replica_set,) = kube.apps.list_namespaced_replica_set(ns).items
    assert condition(replica_set, "ReplicaFailure").reason == "FailedCreate"


def test_a_raised_quota_lets_the_next_pod_in(kube, ns, limit):
    limit({"pods": "0"})
    assert refusal(kube.core.create_namespaced_pod, ns, pod("p"))["code"] == 403
    hard = {"spec": {"hard": {"pods": "1"}}}
    kube.core.patch_namespaced_resource_quota("team", ns, hard, _content_type=MERGE)

    def admitted():
        try:
            return kube.core.create_namespaced_pod(ns, pod("p"))
        except ForbiddenException:
            return None

    until(admitted)
    assert refusal(kube.core.create_namespaced_pod, ns, pod("q"))["code"] == 403


def test_a_dry_run_is_held_to_the_quota_and_uses_none(kube, ns, limit):
    limit({"pods": "1"})
    for _ in range(2):
        kube.core.create_namespaced_pod(ns, pod("p"), dry_run="All")
    assert used(kube, ns) == {"pods": "0"}


def test_a_suspended_job_uses_nothing(kube, ns, limit):
    limit({f"requests.{GPU}": "1", "count/configmaps": "5"})
    kube.batch.create_namespaced_job(ns, job("run", template={"limits": {GPU: "1"}}, suspend=True))
    until(lambda: holds(kube.batch.read_namespaced_job("run", ns), "Suspended"))
    kube.core.create_namespaced_config_map(ns, config_map("counted"))
    # A real control plane puts one of its own into every namespace, at some time.
    until(
        lambda: int(used(kube, ns)["count/configmaps"]) == len(kube.core.list_namespaced_config_map(ns).items)
    )
    assert used(kube, ns)[f"requests.{GPU}"] == "0"
