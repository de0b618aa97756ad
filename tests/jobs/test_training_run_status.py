"""The diagnosis table of the field, row by row, on pods as API servers answer them."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.status import observe_training_run
from tests.pod_samples import (
    BACKOFF,
    READY,
    SCHEDULED,
    T1,
    T2,
    T3,
    container,
    disrupted,
    ended,
    event,
    failed,
    job,
    moment,
    pending,
    pod,
    running,
    unscheduled,
    waiting,
)
from workloads.pods.observation import Stage
from workloads.states import REASONS, Phase, Reason

NO_GPUS = (
    "0/17 nodes are available: 11 Insufficient nvidia.com/gpu, 6 node(s) had untolerated taint(s). "
    "preemption: 0/17 nodes are available: 17 Preemption is not helpful for scheduling."
)
QUOTA = (
    'Error creating: pods "a-1-x7k2p" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4, '
    "used: requests.nvidia.com/gpu=6, limited: requests.nvidia.com/gpu=8"
)
TAINT = "Taint manager: deleting due to NoExecute taint"


# --- on the way


@pytest.mark.parametrize(
    ("name", "given_pod", "stage", "reason", "said", "blocked"),
    [
        ("S1", unscheduled("Unschedulable", NO_GPUS), "scheduling", "Unschedulable", NO_GPUS, False),
        (
            "S12",
            unscheduled("SchedulingGated", "waiting for scheduling gates: [kueue.x-k8s.io/admission]"),
            "scheduling",
            "Scheduling",
            "waiting for scheduling gates",
            False,
        ),
        (
            "S13",
            pod("Pending", conditions=(), node=""),
            "scheduling",
            "Scheduling",
            "said nothing yet",
            False,
        ),
        (
            "S14",
            unscheduled("SchedulerError", "plugin x failed"),
            "scheduling",
            "Scheduling",
            "plugin x",
            False,
        ),
        ("bound", pod("Pending"), "initializing", "Initializing", "not reported yet", False),
        ("creating", pending(waiting("ContainerCreating")), "pulling", "Pulling", "train:2", False),
        (
            "C1",
            pending(waiting("ImagePullBackOff", 'Back-off pulling image "x": not found')),
            "pulling",
            "ImagePullFailed",
            "ImagePullBackOff: Back-off pulling",
            True,
        ),
        (
            "C1b",
            pending(waiting("ErrImagePull", "403")),
            "pulling",
            "ImagePullFailed",
            "ErrImagePull: 403",
            True,
        ),
        (
            "C2",
            pending(waiting("InvalidImageName", "bad")),
            "pulling",
            "ImagePullFailed",
            "InvalidImageName",
            True,
        ),
        (
            "C3",
            pending(waiting("CreateContainerConfigError", 'secret "x" not found')),
            "initializing",
            "Initializing",
            'secret "x" not found',
            True,
        ),
        (
            "C4",
            pending(waiting("CreateContainerError", "no such file")),
            "initializing",
            "StartError",
            "Container main has not started (CreateContainerError): no such file",
            True,
        ),
        (
            "init",
            pending(waiting("PodInitializing"), inits=(container(running(), name="prepare"),)),
            "initializing",
            "Initializing",
            "prepare is running",
            False,
        ),
        (
            "init image",
            pending(
                waiting("PodInitializing"),
                inits=(container(waiting("ImagePullBackOff", "no"), name="prepare"),),
            ),
            "pulling",
            "ImagePullFailed",
            "no",
            True,
        ),
        (
            "init done",
            pending(waiting("PodInitializing"), inits=(container(ended(0, "Completed"), name="prepare"),)),
            "pulling",
            "Pulling",
            "train:2",
            False,
        ),
        (
            "running",
            pod(conditions=(SCHEDULED, READY), containers=(container(running()),)),
            "running",
            "Progressing",
            "runs",
            False,
        ),
        (
            "ending",
            pod(containers=(container(ended(0, "Completed")),)),
            "running",
            "Progressing",
            "ended",
            False,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
def test_a_run_on_its_way_is_told_how_far_it_has_come(name, given_pod, stage, reason, said, blocked):
    seen = observe_training_run(job(), [given_pod])
    assert (seen.stage, seen.reason, seen.blocked) == (stage, reason, blocked)
    assert said in seen.message
    assert (seen.interruption, seen.pods_alive, seen.final) == (False, 1, False)


def test_a_job_without_a_pod_is_being_created():
    seen = observe_training_run(job(), [])
    assert (seen.stage, seen.reason, seen.blocked) == (Stage.CREATING, Reason.CREATING, False)
    assert seen.waiting_since == moment("2026-11-01T10:00:00Z")


def test_what_the_api_server_refuses_to_the_job_controller_is_told_in_its_words():
    events = [event("SuccessfulCreate", "x", uid="job-uid"), event("FailedCreate", QUOTA, uid="job-uid")]
    seen = observe_training_run(job(), [], events)
    assert (seen.stage, seen.blocked, seen.message) == (Stage.CREATING, True, QUOTA)
    assert observe_training_run(job(), [], [event("FailedCreate", QUOTA, uid="other")]).blocked is False


def test_a_job_that_somebody_suspended_says_so():
    assert "not by the portal" in observe_training_run(job(suspend=True), []).message


def test_the_newest_event_explains_a_volume_that_does_not_come():
    given_pod = pending(waiting("ContainerCreating"))
    events = [
        event("FailedMount", "new", uid=given_pod["metadata"]["uid"], at=T3),
        event("FailedMount", "old", uid=given_pod["metadata"]["uid"], at=T2),
    ]
    seen = observe_training_run(job(), [given_pod], events)
    assert (seen.stage, seen.reason, seen.message) == (Stage.INITIALIZING, Reason.INITIALIZING, "new")


def test_the_event_of_a_failed_pull_says_more_than_the_back_off():
    given_pod = pending(waiting("ImagePullBackOff", 'Back-off pulling image "x"'))
    said = 'Failed to pull image "x": toomanyrequests'
    seen = observe_training_run(job(), [given_pod], [event("Failed", said, uid=given_pod["metadata"]["uid"])])
    assert said in seen.message
    assert seen.waiting_since == moment(T1)


# --- while it is being ended


def test_a_pod_on_a_lost_node_is_interrupted_though_its_job_never_fails():
    given_pod = disrupted("DeletionByTaintManager", TAINT, phase="Running", deleted=True)
    seen = observe_training_run(job(), [given_pod])
    assert (seen.stage, seen.reason, seen.cause) == (Stage.DEGRADED, Reason.DEGRADED, Reason.NODE_LOST)
    assert (seen.interruption, seen.final, seen.pods_alive) == (True, False, 1)


def test_a_pod_that_is_preempted_before_it_started_is_still_being_scheduled():
    given_pod = disrupted("PreemptionByScheduler", "x", phase="Pending")
    given_pod["status"]["containerStatuses"] = []
    seen = observe_training_run(job(), [given_pod])
    assert (seen.stage, seen.cause, seen.interruption) == (Stage.SCHEDULING, Reason.PREEMPTED, True)


def test_a_failed_pod_is_not_the_end_before_its_job_says_so():
    seen = observe_training_run(job(("FailureTarget", "BackoffLimitExceeded", "")), [failed(1)])
    assert (seen.stage, seen.pods_alive) == (Stage.RUNNING, 0)


def test_a_job_that_is_gone_is_absent_and_its_pods_still_count():
    seen = observe_training_run(None, [pod(containers=(container(running()),))])
    assert (seen.stage, seen.exists, seen.pods_alive) == (Stage.ABSENT, False, 1)
    assert observe_training_run(job(deleted=True), []).deleting


def test_pods_of_an_earlier_attempt_count_and_say_nothing():
    earlier = pod(name="old", owner="other-uid", deleted=True, containers=(container(running()),), created=T3)
    seen = observe_training_run(job(), [earlier, unscheduled("Unschedulable", NO_GPUS)])
    assert (seen.stage, seen.reason, seen.pods_alive) == (Stage.SCHEDULING, Reason.UNSCHEDULABLE, 2)
    assert {fact.name for fact in seen.pods} == {"old", "a-1-x7k2p"}


PHASES = {
    Stage.CREATING: Phase.ADMITTED,
    Stage.SCHEDULING: Phase.ADMITTED,
    Stage.PULLING: Phase.STARTING,
    Stage.INITIALIZING: Phase.STARTING,
    Stage.LOADING: Phase.STARTING,
    Stage.RUNNING: Phase.RUNNING,
    Stage.DEGRADED: Phase.RUNNING,
    Stage.SUCCEEDED: Phase.SUCCEEDED,
}


@given(data=st.data())
def test_any_status_at_all_gives_a_reason_that_its_phase_may_have(data):
    base = data.draw(
        st.sampled_from(
            [disrupted("EvictionByEvictionAPI"), pod("Failed", reason="OutOfcpu"), failed(1), pod()]
        )
    )
    given_pod = copy.deepcopy(base)
    given_pod["status"]["phase"] = data.draw(
        st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown"])
    )
    given_pod["status"]["message"] = data.draw(st.text())
    states = st.sampled_from(
        [
            running(),
            waiting("CrashLoopBackOff"),
            waiting(""),
            waiting("PodInitializing"),
            ended(0),
            ended(9),
            {},
        ]
    )
    given_pod["status"]["containerStatuses"] = [container(data.draw(states))]
    given_job = job(*data.draw(st.sampled_from([(), (BACKOFF,), (("Complete", "", ""),)])))
    seen = observe_training_run(given_job, [given_pod])
    if seen.stage in PHASES:
        assert seen.reason in REASONS[PHASES[seen.stage]]
    assert seen.message
    assert seen.retryable or not seen.interruption
