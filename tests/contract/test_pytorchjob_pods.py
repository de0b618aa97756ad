"""Pods, Services and what else belongs to a PyTorchJob; a real cluster without a training operator skips these cases."""

from __future__ import annotations

import pytest

from tests.waiting import until, until_equal

from .kube import GPU, gone
from .pytorchjobs import ALL_RUN, ENDS, GROUP, LABEL, RUNS


def environment(pod):
    (container,) = pod["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_the_kind_is_discovered(kube, operator):
    found = {item["name"]: item for item in kube.request("GET", GROUP)["resources"]}
    job = found["pytorchjobs"]
    assert (job["kind"], job["singularName"], job["namespaced"]) == ("PyTorchJob", "pytorchjob", True)
    assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} <= set(
        job["verbs"]
    )
    assert found["pytorchjobs/status"]["kind"] == "PyTorchJob"


def test_every_replica_has_a_pod_with_a_stable_name_labels_and_an_owner_and_a_headless_service(jobs):
    made = jobs.create(ALL_RUN, template={"labels": {"own": "yes"}})
    until_equal(lambda: sorted(jobs.pods()), ["run-master-0", "run-worker-0", "run-worker-1"])
    wanted = {f"{LABEL}job-name": "run", f"{LABEL}operator-name": "pytorchjob-controller", "own": "yes"}
    for name, pod in jobs.pods().items():
        _, role, index = name.split("-")
        labels = pod["metadata"]["labels"]
        assert (
            wanted | {f"{LABEL}replica-type": role, f"{LABEL}replica-index": index}
        ).items() <= labels.items()
        assert labels.get(f"{LABEL}job-role") == ("master" if role == "master" else None)
        (owner,) = pod["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "name": "run",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    until_equal(lambda: sorted(jobs.objects("services")), ["run-master-0", "run-worker-0", "run-worker-1"])
    service = jobs.objects("services")["run-worker-1"]
    assert service["spec"]["clusterIP"] == "None"
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"]) == ("pytorchjob-port", 23456)
    assert service["spec"]["selector"] == service["metadata"]["labels"]
    assert service["spec"]["selector"] == {
        f"{LABEL}job-name": "run",
        f"{LABEL}operator-name": "pytorchjob-controller",
        f"{LABEL}replica-type": "worker",
        f"{LABEL}replica-index": "1",
    }
    assert service["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"


def test_the_environment_is_that_of_torchrun(jobs):
    jobs.create(ALL_RUN, nprocPerNode="4")
    until(lambda: len(jobs.pods()) == 3)
    address = {"MASTER_ADDR": "run-master-0", "MASTER_PORT": "23456"}
    common = {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": "4", "PET_NNODES": "3", "WORLD_SIZE": "12"}
    common |= address | {f"PET_{name}": value for name, value in address.items()}
    for name, rank in (("run-master-0", "0"), ("run-worker-0", "1"), ("run-worker-1", "2")):
        pod = jobs.pods()[name]
        assert environment(pod) == common | {"RANK": rank, "PET_NODE_RANK": rank}
        (port,) = pod["spec"]["containers"][0]["ports"]
        assert port == {"name": "pytorchjob-port", "containerPort": 23456, "protocol": "TCP"}


def test_without_a_number_of_processes_a_pod_counts_once(jobs):
    jobs.create({"Master": (1, RUNS), "Worker": (1, RUNS)})
    until(lambda: len(jobs.pods()) == 2)
    env = environment(jobs.pods()["run-worker-0"])
    assert (env["PET_NPROC_PER_NODE"], env["WORLD_SIZE"], env["PET_NNODES"]) == ("auto", "2", "2")


def test_workers_alone_have_no_rank_and_the_first_leads(jobs):
    jobs.create({"Worker": (2, RUNS)})
    jobs.until("Created", "Running")
    assert jobs.conditions()[-1][3] == f"PyTorchJob {jobs.namespace}/run is running."
    pods = jobs.pods()
    assert set(environment(pods["run-worker-1"])) == {"PYTHONUNBUFFERED", "PET_NPROC_PER_NODE", "PET_NNODES"}
    roles = {name: pod["metadata"]["labels"].get(f"{LABEL}job-role") for name, pod in pods.items()}
    assert roles == {"run-worker-0": "master", "run-worker-1": None}


ELASTIC = {
    "given": (
        {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "etcd", "rdzvPort": 29400, "maxRestarts": 3, "rdzvId": "x"},
        {"PET_NNODES": "1:4", "PET_RDZV_BACKEND": "etcd", "PET_RDZV_ENDPOINT": "run-worker-0:29400"}
        | {"PET_MAX_RESTARTS": "3", "PET_RDZV_ID": "x", "PET_NPROC_PER_NODE": "auto"},
    ),
    "bare": (
        {},
        {"PET_NNODES": "2:2", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "run-worker-0:23456"}
        | {"PET_NPROC_PER_NODE": "auto"},
    ),
    "least alone": (
        {"minReplicas": 2, "nProcPerNode": 8, "rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]},
        {"PET_NNODES": "2:2", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "run-worker-0:23456"}
        | {"PET_RDZV_CONF": "a=1,b=2", "PET_NPROC_PER_NODE": "8"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ELASTIC)
def test_an_elastic_job_meets_at_its_first_worker(jobs, case):
    policy, wanted = ELASTIC[case]
    jobs.create({"Worker": (2, RUNS)}, elasticPolicy=policy)
    until_equal(lambda: len(jobs.pods()), 2)
    for pod in jobs.pods().values():
        assert environment(pod) == {"PYTHONUNBUFFERED": "1"} | wanted


@pytest.mark.parametrize(
    ("given", "policy"),
    [(None, "OnFailure"), ("Never", "Never"), ("ExitCode", "Never"), ("Always", "Always")],
)
def test_the_restart_policy_of_the_replica_counts(jobs, given, policy):
    jobs.create({"Master": (1, RUNS)}, restart=given, template={"restartPolicy": "OnFailure"})
    pod = until(lambda: jobs.pods().get("run-master-0"))
    assert pod["spec"]["restartPolicy"] == policy
    text = "Restart policy in pod template will be overwritten by restart policy in replica spec"
    until(lambda: ("Warning", "SetPodTemplateRestartPolicy", text) in jobs.events())


def test_a_pod_that_may_not_be_made_is_told_as_an_event(jobs):
    quota = {"metadata": {"name": "one"}, "spec": {"hard": {f"requests.{GPU}": "1"}}}
    jobs.kube.core.create_namespaced_resource_quota(jobs.namespace, quota)
    until(lambda: jobs.kube.core.read_namespaced_resource_quota("one", jobs.namespace).status.hard)
    jobs.create(ALL_RUN, template={"limits": {GPU: "1"}})

    def refused():
        texts = [
            text for kind, reason, text in jobs.events() if (kind, reason) == ("Warning", "FailedCreatePod")
        ]
        return texts and texts[0]

    assert "is forbidden: exceeded quota: one, requested: requests.nvidia.com/gpu=1" in until(refused)
    # Without all of its pods a job has no status at all.
    assert jobs.conditions() == []


def test_another_manager_s_job_is_left_alone(jobs):
    jobs.create(ALL_RUN, policy={"managedBy": "kueue.x-k8s.io/multikueue"})
    jobs.create({"Master": (1, RUNS)}, name="beside")
    until(lambda: jobs.pods("beside"))
    assert (jobs.conditions(), jobs.pods()) == ([], {})


def test_deleting_a_job_takes_all_that_it_owns(jobs):
    jobs.create(ALL_RUN)
    jobs.until("Created", "Running")
    jobs.kube.request("DELETE", f"{jobs.path}/run", {"propagationPolicy": "Foreground"})
    until(gone(jobs.read))
    assert (jobs.pods(), jobs.objects("services")) == ({}, {})


def test_a_finished_job_is_deleted_after_its_time_to_live(jobs):
    jobs.create({"Master": (1, ENDS)}, policy={"ttlSecondsAfterFinished": 1})
    until(gone(jobs.read))
    until_equal(jobs.pods, {})


def test_a_disruption_budget_counts_workers_only(jobs):
    """So that `maxUnavailable: 0` lets one pod of a job with a master go."""
    jobs.create(ALL_RUN, template={"labels": {"gang": "run"}})
    until_equal(jobs.replicas, {"Master": {"active": 1}, "Worker": {"active": 2}})
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"gang": "run"}}}
    body = {"metadata": {"name": "gang"}, "spec": spec}
    jobs.kube.policy.create_namespaced_pod_disruption_budget(jobs.namespace, body)

    def counted():
        status = jobs.kube.policy.read_namespaced_pod_disruption_budget("gang", jobs.namespace).status
        return status.expected_pods, status.current_healthy, status.disruptions_allowed

    until_equal(counted, (2, 3, 1))
