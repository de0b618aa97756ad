"""What becomes of a PyTorchJob; a real cluster without a training operator skips these cases."""

from __future__ import annotations

import pytest

from tests.waiting import until, until_equal

from .kube import pytorch_job, unique
from .pytorchjobs import ALL_RUN, ENDS, FAILS, LABEL, RUNS


def created(name):
    return "Created", "True", "PyTorchJobCreated", f"PyTorchJob {name} is created."


def running(status="True"):
    return "Running", status, "PyTorchJobRunning", "PyTorchJob run is running."


def uids(objects):
    return {each["metadata"]["uid"] for each in objects.values()}


def test_a_job_that_runs_counts_its_active_pods(jobs):
    assert jobs.create(ALL_RUN)["metadata"]["generation"] == 1
    seen = jobs.until("Created", "Running")
    assert jobs.conditions() == [created("run"), running()]
    until_equal(jobs.replicas, {"Master": {"active": 1}, "Worker": {"active": 2}})
    assert seen["status"]["startTime"]
    assert "completionTime" not in seen["status"]
    wanted = f"{LABEL}job-name=run,{LABEL}operator-name=pytorchjob-controller,{LABEL}replica-type="
    statuses = jobs.read()["status"]["replicaStatuses"]
    assert {role: status["selector"] for role, status in statuses.items()} == {
        "Master": f"{wanted}master",
        "Worker": f"{wanted}worker",
    }
    # What the operator fills in is never stored.
    assert seen["spec"] == pytorch_job("run", ALL_RUN)["spec"]


def test_the_master_s_end_is_the_job_s(jobs):
    jobs.create({"Master": (1, ENDS), "Worker": (2, RUNS)})
    done = ("Succeeded", "True", "PyTorchJobSucceeded", "PyTorchJob run is successfully completed.")
    seen = jobs.until("Created", "Running", "Succeeded")
    assert jobs.conditions() == [created("run"), running("False"), done]
    assert seen["status"]["completionTime"] >= seen["status"]["startTime"]
    # Workers still run, and are counted as having succeeded.
    until_equal(jobs.replicas, {"Master": {"succeeded": 1}, "Worker": {"succeeded": 2}})
    assert jobs.phases() == {
        "run-master-0": "Succeeded",
        "run-worker-0": "Running",
        "run-worker-1": "Running",
    }
    told = {
        ("Normal", "PyTorchJobSucceeded", done[3]),
        ("Normal", "ExitedWithCode", f"Pod: {jobs.namespace}.run-master-0 exited with code 0"),
        ("Normal", "SuccessfulCreatePod", "Created pod: run-worker-1"),
        ("Normal", "SuccessfulCreateService", "Created service: run-worker-1"),
    }
    until(lambda: told <= jobs.events())


def test_without_a_master_all_workers_have_to_succeed(jobs):
    jobs.create({"Worker": (2, ENDS)})
    jobs.until("Created", "Running", "Succeeded")
    assert jobs.conditions()[-1][3] == f"PyTorchJob {jobs.namespace}/run successfully completed."
    until_equal(jobs.replicas, {"Worker": {"succeeded": 2}})


def test_of_an_elastic_job_one_worker_has_to_succeed(jobs):
    jobs.create({"Worker": (2, RUNS)}, elasticPolicy={"minReplicas": 1, "maxReplicas": 2})
    until_equal(jobs.replicas, {"Worker": {"active": 2}})
    ended = {"status": {"phase": "Succeeded"}}
    jobs.kube.core.patch_namespaced_pod_status("run-worker-1", jobs.namespace, ended)
    jobs.until("Created", "Running", "Succeeded")
    assert jobs.phases() == {"run-worker-0": "Running", "run-worker-1": "Succeeded"}


@pytest.mark.parametrize(("policy", "left"), [("None", 3), ("Running", 1), ("All", 0)])
def test_the_clean_up_policy_says_which_pods_stay(jobs, policy, left):
    jobs.create({"Master": (1, ENDS), "Worker": (2, RUNS)}, policy={"cleanPodPolicy": policy})
    jobs.until("Created", "Running", "Succeeded")
    until_equal(lambda: len(jobs.pods()), left)
    # A pod's Service goes with it.
    until_equal(lambda: set(jobs.objects("services")), set(jobs.pods()))


def test_a_failed_pod_that_is_never_restarted_fails_the_job(jobs):
    jobs.create({"Master": (1, RUNS), "Worker": (1, FAILS)})
    text = "PyTorchJob run is failed because 1 Worker replica(s) failed."
    seen = jobs.until("Created", "Running", "Failed")
    assert jobs.conditions() == [
        created("run"),
        running("False"),
        ("Failed", "True", "PyTorchJobFailed", text),
    ]
    assert seen["status"]["completionTime"]
    assert jobs.replicas() == {"Master": {"active": 1}, "Worker": {"failed": 1}}
    # Nobody stops the others.
    assert jobs.phases() == {"run-master-0": "Running", "run-worker-0": "Failed"}
    until(lambda: ("Normal", "PyTorchJobFailed", text) in jobs.events())


def test_a_failed_pod_is_made_anew_where_it_may_restart(jobs):
    jobs.create({"Master": (1, FAILS), "Worker": (1, RUNS)}, restart=None)
    first = until(lambda: jobs.pods().get("run-master-0"))["metadata"]["uid"]
    until(lambda: jobs.pods().get("run-master-0", {"metadata": {"uid": first}})["metadata"]["uid"] != first)
    text = "job run is restarting because Master replica(s) failed."
    until(lambda: ("Warning", "PyTorchJobRestarting", text) in jobs.events())
    assert "Failed" not in {one[0] for one in jobs.conditions()}


@pytest.mark.parametrize(("code", "final"), [("1", "Failed"), ("137", "")])
def test_an_exit_code_says_whether_to_try_again(jobs, code, final):
    jobs.create({"Master": (1, {**ENDS, "BED_EXIT_CODE": code})}, restart="ExitCode")
    if final:
        seen = jobs.until("Created", "Running", "Failed")
        assert jobs.conditions()[-1][3] == 'job "run" is failing because "Master" replica(s) failed.'
        assert "completionTime" not in seen["status"]
    else:
        until(lambda: "PyTorchJobRestarting" in {reason for _, reason, _ in jobs.events()})
        assert "Failed" not in {one[0] for one in jobs.conditions()}


@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_a_limit_of_no_retries_takes_all_pods(jobs, restart):
    """Those that there were: an operator whose view of the job is older than its own word makes them once more, and they stay."""
    jobs.create({"Master": (1, FAILS), "Worker": (1, RUNS)}, restart=restart, policy={"backoffLimit": 0})
    made = until(lambda: len(seen := uids(jobs.pods())) == 2 and seen)
    served = uids(jobs.objects("services"))
    seen = jobs.until("Created", "Running", "Failed")
    text = "Job run has failed because it has reached the specified backoff limit"
    assert jobs.conditions()[-1] == ("Failed", "True", "PyTorchJobFailed", text)
    assert seen["status"]["completionTime"]
    if jobs.kube.name == "devcluster":
        until_equal(jobs.pods, {})
        until_equal(lambda: jobs.objects("services"), {})
    until_equal(lambda: made & uids(jobs.pods()), set())
    until_equal(lambda: served & uids(jobs.objects("services")), set())


def test_a_passed_deadline_counts_at_the_next_change(jobs):
    jobs.create(ALL_RUN, policy={"activeDeadlineSeconds": 1})

    def touched():
        jobs.patch({"metadata": {"labels": {"touched": unique("at")}}})
        return [one for one in jobs.conditions() if one[0] == "Failed"]

    until(touched)
    text = "Job run has failed because it was active longer than specified deadline"
    assert jobs.conditions()[-1] == ("Failed", "True", "PyTorchJobFailed", text)
    until_equal(jobs.pods, {})


def test_a_suspended_job_has_no_pods_until_it_resumes(jobs):
    jobs.create(ALL_RUN, policy={"suspend": True})
    seen = jobs.until("Created", "Suspended")
    assert jobs.conditions()[-1] == (
        "Suspended",
        "True",
        "PyTorchJobSuspended",
        "PyTorchJob run is suspended.",
    )
    assert "startTime" not in seen["status"]
    assert jobs.pods() == {}
    jobs.suspend(False)
    seen = jobs.until("Created", "Suspended", "Running")
    assert jobs.conditions()[1] == ("Suspended", "False", "PyTorchJobResumed", "PyTorchJob run is resumed.")
    assert seen["status"]["startTime"]
    assert seen["metadata"]["generation"] == 2


def test_suspending_a_running_job_takes_its_pods_and_services(jobs):
    jobs.create(ALL_RUN)
    jobs.until("Created", "Running")
    jobs.suspend(True)
    jobs.until("Created", "Running", "Suspended")
    assert jobs.conditions()[1] == ("Running", "False", "PyTorchJobSuspended", "PyTorchJob run is suspended.")
    until_equal(jobs.pods, {})
    until_equal(lambda: jobs.objects("services"), {})
    until_equal(jobs.replicas, {"Master": {}, "Worker": {}})
    jobs.suspend(False)
    jobs.until("Created", "Suspended", "Running")
    until_equal(lambda: len(jobs.pods()), 3)


def test_a_running_pod_that_is_evicted_counts_as_failed(jobs):
    jobs.create({"Master": (1, RUNS), "Worker": (2, {"BED_STOP_SECONDS": "2"})})
    until_equal(jobs.replicas, {"Master": {"active": 1}, "Worker": {"active": 2}})
    name = "run-worker-1"
    jobs.kube.core.create_namespaced_pod_eviction(name, jobs.namespace, {"metadata": {"name": name}})
    jobs.until("Created", "Running", "Failed")
    assert jobs.conditions()[-1][3] == "PyTorchJob run is failed because 1 Worker replica(s) failed."
    assert jobs.replicas()["Worker"] == {"active": 1, "failed": 1}
