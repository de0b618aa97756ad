"""Runs of several pods: as far as the last of them, and over with the first that fails."""

from __future__ import annotations

import pytest

from jobs.status import observe_training_run
from tests.pod_samples import (
    BACKOFF,
    SCHEDULED,
    T1,
    T2,
    T3,
    container,
    disrupted,
    ended,
    failed,
    moment,
    pending,
    pod,
    running,
    unscheduled,
    waiting,
)
from tests.pod_samples import job as one_job

EXIT_1 = "Container main ended with exit code 1. It ended with an error."
NO_ROOM = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."


def job(*conditions, pods=3, **more):
    made = one_job(*conditions, **more)
    return {**made, "spec": {**made["spec"], "completions": pods, "parallelism": pods}}


def named(number, given):
    name = f"a-1-{number}-x7k2p"
    return {**given, "metadata": {**given["metadata"], "name": name, "uid": f"uid-{name}"}}


def gang(*pods):
    return [named(number, each) for number, each in enumerate(pods)]


def runs():
    return pod(containers=(container(running()),))


def pulls():
    return pending(waiting("ContainerCreating"))


def succeeded():
    return pod("Succeeded", containers=(container(ended(0, "Completed")),))


def killed():
    """As the Job's controller leaves a pod when another one has failed."""
    return failed(143, deleted=True)


def look(*pods, conditions=(), **more):
    return observe_training_run(job(*conditions, **more), gang(*pods))


@pytest.mark.parametrize(
    ("pods", "stage", "reason", "message"),
    [
        ((), "creating", "Creating", "The Job is made; its pods are not there yet."),
        ((runs(), runs()), "creating", "Creating", "2 of 3 pods are made."),
        (
            (runs(), runs(), unscheduled("Unschedulable", NO_ROOM)),
            "scheduling",
            "Unschedulable",
            f"2 of 3 pods have a node. Pod a-1-2-x7k2p: {NO_ROOM}",
        ),
        (
            (pulls(), pulls(), pulls()),
            "pulling",
            "Pulling",
            "0 of 3 pods have started. Pod a-1-0-x7k2p: Pulling ghcr.io/vision/train:2 and mounting volumes.",
        ),
        (
            (runs(), pulls(), runs()),
            "pulling",
            "GangWaiting",
            "2 of 3 pods have started. Pod a-1-1-x7k2p: Pulling ghcr.io/vision/train:2 and mounting volumes.",
        ),
        (
            (runs(), pending(waiting("ErrImagePull", "no such tag")), runs()),
            "pulling",
            "ImagePullFailed",
            "2 of 3 pods have started. Pod a-1-1-x7k2p: ErrImagePull: no such tag",
        ),
        ((runs(), runs(), runs()), "running", "Progressing", "3 of 3 pods have started."),
        (
            (runs(), succeeded(), runs()),
            "running",
            "Progressing",
            "3 of 3 pods have started, 1 of them to the end.",
        ),
        (
            (succeeded(), succeeded(), succeeded()),
            "running",
            "Progressing",
            "Its pods have ended; waiting for its Job to say so. Pod a-1-2-x7k2p: Completed.",
        ),
        (
            (runs(), failed(1), runs()),
            "running",
            "Progressing",
            f"A pod has ended; waiting for its Job to say so. Pod a-1-1-x7k2p: {EXIT_1}",
        ),
    ],
)
def test_a_gang_has_come_as_far_as_its_last_pod(pods, stage, reason, message):
    seen = look(*pods)
    assert (seen.stage, seen.reason, seen.message) == (stage, reason, message)
    assert (seen.interruption, seen.desired_replicas) == (False, 3)
    assert (seen.look_again_seconds is not None) == ("waiting for its Job" in message)


def test_a_gang_counts_as_starting_when_its_last_pod_has_a_node():
    assert look(runs(), runs(), unscheduled("Unschedulable", NO_ROOM)).scheduled_at is None
    later = pod(conditions=({**SCHEDULED, "lastTransitionTime": T2},), containers=(container(running()),))
    seen = look(runs(), later, runs())
    assert seen.scheduled_at == moment(T2)
    assert look(runs(), runs(), runs()).scheduled_at == moment(T1)


@pytest.mark.parametrize(
    ("pods", "cause", "reason", "interruption"),
    [
        # An error of its own, and what the controller does then.
        ((killed(), failed(1), killed()), 1, "ApplicationError", False),
        ((failed(137, "OOMKilled"), killed(), killed()), 0, "OOMKilled", False),
        # A lost node; the others lose their peer and end with errors.
        ((failed(1), disrupted("DeletionByTaintManager"), failed(1)), 1, "NodeLost", True),
        ((killed(), disrupted("DeletionByTaintManager", spot=True), killed()), 1, "SpotReclaimed", True),
        ((failed(1), killed(), disrupted("PreemptionByScheduler")), 2, "Preempted", True),
        # Somebody deleted one: the controller deleted the others.
        ((killed(), killed(), killed()), 0, "DeletedExternally", True),
    ],
)
def test_a_failed_gang_says_what_came_first(pods, cause, reason, interruption):
    seen = look(*pods, conditions=(BACKOFF,))
    assert (seen.stage, seen.reason, seen.interruption) == ("failed", reason, interruption)
    assert seen.message.startswith(f"Pod a-1-{cause}-x7k2p: ")
    assert seen.finished_at == moment(T3)


def test_of_two_that_fail_the_first_is_the_cause():
    late = failed(2)
    late["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-11-01T10:30:09Z"
    seen = look(late, failed(1), killed(), conditions=(BACKOFF,))
    assert seen.exit_code == 1


@pytest.mark.parametrize("left", [(killed(), killed()), ()])
def test_a_gang_that_misses_a_pod_was_deleted_from(left):
    seen = look(*left, conditions=(BACKOFF,))
    assert (seen.reason, seen.interruption, seen.retryable) == ("DeletedExternally", True, True)
    assert seen.message.startswith("A pod was deleted before its end was seen.")


def test_an_interrupted_pod_interrupts_all_while_the_job_still_lives():
    seen = look(runs(), disrupted("DeletionByTaintManager", phase="Running"), runs())
    assert (seen.stage, seen.interruption, seen.cause) == ("degraded", True, "NodeLost")
    assert seen.message.startswith("Pod a-1-1-x7k2p: ")


# --- kinds of the training operator


def kubeflow(*conditions, kind="PyTorchJob", failed=0):
    made = one_job(*conditions)
    specs = {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}
    return {
        **made,
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "spec": {"pytorchReplicaSpecs": specs, "runPolicy": {}},
        "status": {**made["status"], "replicaStatuses": {"Worker": {"failed": failed} if failed else {}}},
    }


OPERATOR_SAYS = ("Failed", "PyTorchJobFailed", "PyTorchJob a-1 is failed because 1 Worker replica(s) failed.")


def test_a_pod_that_is_being_deleted_fails_the_job_at_once_and_nobody_is_blamed():
    leaving = pod(containers=(container(running()),), deleted=True)
    seen = observe_training_run(kubeflow(OPERATOR_SAYS, failed=1), gang(runs(), leaving, runs()))
    assert (seen.stage, seen.reason, seen.interruption) == ("failed", "DeletedExternally", True)


def test_a_pod_on_its_way_off_a_lost_node_is_the_cause_though_it_has_not_ended():
    leaving = disrupted("DeletionByTaintManager", phase="Running")
    seen = observe_training_run(kubeflow(OPERATOR_SAYS, failed=1), gang(runs(), leaving, runs()))
    assert (seen.stage, seen.reason, seen.interruption) == ("failed", "NodeLost", True)


def test_an_object_that_failed_without_a_pod_is_no_interruption():
    refused = ("Failed", "PyTorchJobFailed", "PyTorchJob a-1 is not valid")
    seen = observe_training_run(kubeflow(refused), [])
    assert (seen.stage, seen.reason, seen.interruption) == ("failed", "BackoffLimitExceeded", False)
    assert "is not valid" in seen.message


def test_the_operators_deadline_is_told_from_its_words():
    words = "Job a-1 has failed because it was active longer than specified deadline"
    seen = observe_training_run(kubeflow(("Failed", "PyTorchJobFailed", words)), [])
    assert (seen.reason, seen.interruption) == ("DeadlineExceeded", False)
    assert seen.message.startswith("The PyTorchJob's own deadline passed")


# --- a launcher that is made when the workers are ready


def mpi():
    made = one_job()
    specs = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    spec = {"mpiReplicaSpecs": specs, "launcherCreationPolicy": "WaitForWorkersReady", "runPolicy": {}}
    return {**made, "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}


@pytest.mark.parametrize(
    ("pods", "stage", "reason"),
    [
        ((runs(),), "creating", "Creating"),
        ((pulls(), runs()), "pulling", "GangWaiting"),
        ((runs(), pending(waiting("ErrImagePull", "no such tag"))), "pulling", "ImagePullFailed"),
        ((runs(), unscheduled("Unschedulable", NO_ROOM)), "scheduling", "Unschedulable"),
        ((runs(), runs()), "creating", "Creating"),
        ((runs(), runs(), pulls()), "pulling", "GangWaiting"),
        ((runs(), runs(), runs()), "running", "Progressing"),
    ],
)
def test_workers_are_judged_while_their_launcher_waits_for_them(pods, stage, reason):
    seen = observe_training_run(mpi(), gang(*pods))
    assert (seen.stage, seen.reason, seen.desired_replicas) == (stage, reason, 3)


def elastic(fewest, most):
    made = kubeflow()
    made["spec"] = {
        "pytorchReplicaSpecs": {"Worker": {"replicas": most}},
        "elasticPolicy": {"minReplicas": fewest, "maxReplicas": most},
    }
    return made


def test_an_elastic_run_runs_with_the_fewest_that_it_needs():
    pods = gang(runs(), unscheduled("Unschedulable", NO_ROOM), runs())
    seen = observe_training_run(elastic(2, 3), pods)
    assert (seen.stage, seen.blocked) == ("running", False)
    assert seen.message == "2 of 3 pods have started."
    assert seen.scheduled_at is not None
    assert seen.started_at is not None
    waits = observe_training_run(elastic(3, 3), pods)
    assert (waits.stage, waits.scheduled_at) == ("scheduling", None)


def test_an_elastic_run_that_needs_one_pod_still_has_all_of_them():
    seen = observe_training_run(elastic(1, 3), gang(runs(), failed(1), runs()))
    assert seen.desired_replicas == 3
    assert "Container main ended with exit code 1" in seen.message
