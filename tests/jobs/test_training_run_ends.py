"""How a run ended, and who is to blame: the rows of the diagnosis table on pods as API servers answer them."""

from __future__ import annotations

from datetime import UTC

import pytest

from jobs.status import observe_training_run
from tests.pod_samples import (
    BACKOFF,
    T1,
    T2,
    T3,
    container,
    disrupted,
    ended,
    failed,
    job,
    moment,
    pod,
    waiting,
)
from workloads.pods.observation import Stage
from workloads.states import Reason

TAINT = "Taint manager: deleting due to NoExecute taint"
EVICTED = "Eviction API: evicting"
GC = "PodGC: node no longer exists"


def over(given_pod, condition=BACKOFF):
    return observe_training_run(job(condition), [given_pod] if given_pod else [])


def test_a_complete_job_has_succeeded():
    done = pod("Succeeded", containers=(container(ended(0, "Completed")),))
    seen = observe_training_run(job(("Complete", "CompletionsReached", "")), [done])
    assert (seen.stage, seen.reason, seen.exit_code, seen.pods_alive) == (
        Stage.SUCCEEDED,
        Reason.COMPLETED,
        0,
        0,
    )
    assert (seen.scheduled_at, seen.started_at, seen.finished_at) == (
        moment(T1),
        moment(T2),
        moment(T3),
    )


@pytest.mark.parametrize(
    ("name", "given_pod", "reason", "retryable", "code", "said"),
    [
        ("T1", failed(137, "OOMKilled"), "OOMKilled", False, 137, "its limit of 16Gi"),
        ("T2", failed(137), "ApplicationError", True, 137, "SIGKILL"),
        ("T3", failed(143), "ApplicationError", True, 143, "SIGTERM"),
        ("T4", failed(139), "ApplicationError", True, 139, "SIGSEGV"),
        ("T4 bus", failed(135), "ApplicationError", True, 135, "SIGBUS"),
        ("exit 1", failed(1), "ApplicationError", True, 1, "exit code 1"),
        ("exit 33", failed(33, message="epoch 3"), "ApplicationError", True, 33, "epoch 3"),
        (
            "T5",
            failed(1, message="torch.OutOfMemoryError: CUDA out of memory"),
            "ApplicationError",
            False,
            1,
            "GPU",
        ),
        (
            "T6",
            failed(1, message="CUDA error: no kernel image is available"),
            "ApplicationError",
            False,
            1,
            "driver",
        ),
        ("T8", failed(127), "ApplicationError", False, 127, "not found"),
        (
            "C4",
            failed(128, "StartError", 'exec: "trian": not found'),
            "StartError",
            False,
            128,
            'Container main did not start: exec: "trian"',
        ),
        (
            "C4 docker",
            failed(127, "ContainerCannotRun", 'exec: "trian": not found'),
            "StartError",
            False,
            127,
            "did not start",
        ),
        (
            "P1 own",
            failed(137, reason="Evicted")
            | {
                "status": {
                    "phase": "Failed",
                    "reason": "Evicted",
                    "message": 'Usage of EmptyDir volume "shm" exceeds the limit "8Gi".',
                }
            },
            "ApplicationError",
            False,
            None,
            "exceeds the limit",
        ),
        (
            "P4",
            pod(
                "Failed",
                reason="DeadlineExceeded",
                message="Pod was active on the node longer than the deadline",
            ),
            "DeadlineExceeded",
            False,
            None,
            "longer than",
        ),
        (
            "shared",
            pod(
                "Failed",
                reason="UnexpectedAdmissionError",
                message="maximum request size for shared resources is 1",
            ),
            "InvalidSpec",
            False,
            None,
            "only once",
        ),
        ("silent", pod("Failed"), "ApplicationError", True, None, "does not say why"),
        (
            "init",
            pod(
                "Failed",
                inits=(container(ended(2), name="prepare"),),
                containers=(container(waiting("PodInitializing")),),
            ),
            "ApplicationError",
            True,
            2,
            "Container prepare ended",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
def test_a_failure_of_the_run_itself_is_no_interruption(name, given_pod, reason, retryable, code, said):
    seen = over(given_pod)
    assert (seen.stage, seen.reason, seen.retryable, seen.exit_code) == ("failed", reason, retryable, code)
    assert said in seen.message
    assert (seen.interruption, seen.pods_alive) == (False, 0)


def test_what_did_not_start_has_no_time_of_a_start():
    never = failed(128, "StartError", 'exec: "trian": not found')
    never["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"] = "1970-01-01T00:00:00Z"
    assert over(never).started_at is None


INTERRUPTIONS = [
    ("D1", disrupted("PreemptionByScheduler", "default-scheduler: preempting"), "Preempted"),
    ("D2", disrupted("DeletionByTaintManager", TAINT), "NodeLost"),
    ("D2 spot", disrupted("DeletionByTaintManager", TAINT, spot=True), "SpotReclaimed"),
    ("D3", disrupted("EvictionByEvictionAPI", EVICTED), "NodeLost"),
    ("D3 spot", disrupted("EvictionByEvictionAPI", EVICTED, spot=True), "SpotReclaimed"),
    ("D4", disrupted("DeletionByPodGC", GC), "NodeLost"),
    ("D4 spot", disrupted("DeletionByPodGC", GC, spot=True), "SpotReclaimed"),
    ("D5 P2", disrupted("TerminationByKubelet", "x"), "NodeLost"),
    ("D6", disrupted("DeletionByDeviceTaintManager", "device taint"), "NodeLost"),
    ("D1 spot", disrupted("PreemptionByScheduler", "x", spot=True), "Preempted"),
    (
        "P2",
        pod(
            "Failed", reason="Terminated", message="Pod was terminated in response to imminent node shutdown."
        ),
        "NodeLost",
    ),
    ("P2 spot", pod("Failed", reason="NodeShutdown", message="shutting down", spot=True), "SpotReclaimed"),
    (
        "P3",
        pod("Failed", reason="OutOfnvidia.com/gpu", message="Pod was rejected: Node didn't have enough"),
        "NodeLost",
    ),
    ("P3b", pod("Failed", reason="UnexpectedAdmissionError", message="Allocate failed"), "NodeLost"),
    (
        "P5",
        pod("Failed", reason="Preempting", message="Preempted in order to admit critical pod"),
        "Preempted",
    ),
    (
        "P6",
        pod("Failed", reason="NodeLost", message="Node a100-0 which was running pod is unresponsive"),
        "NodeLost",
    ),
    ("P1 node", pod("Failed", reason="Evicted", message="The node was low on resource: memory."), "NodeLost"),
    ("unknown", failed(137, "ContainerStatusUnknown"), "NodeLost"),
    ("deleted", failed(137, deleted=True), "DeletedExternally"),
    ("gone", None, "DeletedExternally"),
]


@pytest.mark.parametrize(
    ("name", "given_pod", "reason"), INTERRUPTIONS, ids=[case[0] for case in INTERRUPTIONS]
)
def test_what_is_not_the_users_fault_is_an_interruption(name, given_pod, reason):
    seen = over(given_pod)
    assert (seen.stage, seen.reason, seen.interruption, seen.retryable) == ("failed", reason, True, True)


def test_what_the_kubelet_ended_is_judged_by_its_own_reason():
    own = disrupted("TerminationByKubelet")
    own["status"] |= {
        "reason": "Evicted",
        "message": 'Container main exceeded its local ephemeral storage limit "1Gi".',
    }
    assert (over(own).reason, over(own).interruption) == (Reason.APPLICATION_ERROR, False)
    own["status"] |= {"reason": "Preempting", "message": "critical pod"}
    assert (over(own).reason, over(own).interruption) == (Reason.PREEMPTED, True)


def test_a_stale_disruption_target_does_not_excuse_a_failure():
    given_pod = disrupted("EvictionByEvictionAPI", EVICTED)
    given_pod["status"]["conditions"][1]["status"] = "False"
    assert over(given_pod).interruption is False


def test_out_of_memory_counts_before_a_later_deletion_of_the_pod():
    assert over(failed(137, "OOMKilled", deleted=True)).reason == Reason.OOM_KILLED


def test_the_jobs_own_deadline_is_told_as_such():
    seen = over(
        failed(143, deleted=True),
        ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"),
    )
    assert (seen.reason, seen.interruption, seen.retryable) == (Reason.DEADLINE_EXCEEDED, False, False)


def test_code_that_could_not_be_fetched_is_no_command_that_could_not_be_started():
    fatal = "fatal: unable to access 'https://git.example/a.git/': Could not resolve host"
    given = pod(
        "Failed",
        inits=(container(ended(128, "Error", fatal), name="git-fetch"),),
        containers=(container(waiting("PodInitializing")),),
    )
    seen = over(given)
    assert (seen.reason, seen.retryable, seen.exit_code) == ("ApplicationError", True, 128)
    assert "could not bring the code of source.git (exit code 128)" in seen.message
    assert "Could not resolve host" in seen.message


def test_facts_of_a_pod_carry_the_times_of_the_api():
    (fact,) = over(failed(3, deleted=True)).pods
    assert (fact.scheduled_at, fact.started_at, fact.finished_at, fact.deletion_at) == (
        moment(T1),
        moment(T2),
        moment(T3),
        moment(T3),
    )
    assert (fact.node, fact.phase, fact.exit_code, fact.resource_version) == ("a100-0", "Failed", 3, "77")
    assert fact.finished_at.tzinfo == UTC


def test_a_pod_that_failed_without_a_container_ended_at_its_last_change():
    refused = pod("Failed", reason="OutOfcpu", message="Pod was rejected")
    (fact,) = over(refused).pods
    assert (fact.started_at, fact.finished_at) == (None, moment(T1))
