from __future__ import annotations

from datetime import timedelta

import pytest

from inference.status import observe_endpoint
from tests.pod_samples import (
    READY,
    SCHEDULED,
    container,
    deployment,
    disrupted,
    ended,
    pending,
    pod,
    running,
    unscheduled,
    waiting,
)
from workloads.pods.observation import Stage
from workloads.states import REASONS, Phase, Reason

QUOTA = 'pods "a" is forbidden: exceeded quota: gpus'
REFUSED = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA}
STUCK = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}


def ready(name="r"):
    return pod(name=name, conditions=(SCHEDULED, READY), containers=(container(running()),))


def test_pods_that_a_new_deployment_takes_over_serve_before_its_controller_has_spoken():
    made = {key: value for key, value in deployment().items() if key != "status"}
    seen = observe_endpoint(made, [ready("a"), ready("b")])
    assert (seen.stage, seen.ready_replicas, seen.rollout.complete) == (Stage.UPDATING, 2, False)
    assert observe_endpoint(made, []).stage is Stage.CREATING


def test_a_rollout_was_complete_when_its_last_pod_was_ready_and_the_deployment_had_no_others():
    progress = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    later = {**progress, "lastUpdateTime": "2026-11-01T10:01:30Z"}
    at = observe_endpoint(deployment(desired=1, total=1, updated=1, ready=1), [ready()]).rollout.completed_at
    assert at is not None
    for conditions, seconds in (((later,), 30), (({**later, "reason": "ReplicaSetUpdated"},), 0)):
        made = deployment(desired=1, total=1, updated=1, ready=1, conditions=conditions)
        assert observe_endpoint(made, [ready()]).rollout.completed_at == at + timedelta(seconds=seconds)
    assert observe_endpoint(deployment(ready=1, conditions=(later,)), [ready()]).rollout.completed_at is None


def loading(name="l"):
    return pod(name=name, containers=(container(running()),))


def crashing(last, name="c"):
    state = waiting("CrashLoopBackOff", "back-off 20s restarting failed container")
    return pod(name=name, containers=(container(state, restarts=3, last=last),))


@pytest.mark.parametrize(
    ("name", "given", "pods", "stage", "reason", "said", "blocked"),
    [
        ("ready", deployment(), [ready("a"), ready("b")], "ready", "Ready", "2 of 2", False),
        (
            "zero",
            deployment(desired=0, total=0, updated=0, ready=0),
            [],
            "ready",
            "Ready",
            "No replicas",
            False,
        ),
        ("made", deployment(total=0, updated=0, ready=0), [], "creating", "Creating", "not there yet", False),
        (
            "quota",
            deployment(total=0, updated=0, ready=0, conditions=(REFUSED,)),
            [],
            "creating",
            "Creating",
            QUOTA,
            True,
        ),
        (
            "no node",
            deployment(ready=0),
            [unscheduled("Unschedulable", "0/3 nodes are available")],
            "scheduling",
            "Unschedulable",
            "0/3 nodes",
            False,
        ),
        (
            "pulling",
            deployment(ready=0),
            [pending(waiting("ContainerCreating")), unscheduled("Unschedulable", "0/3")],
            "pulling",
            "Pulling",
            "1 Pulling, 1 Unschedulable",
            False,
        ),
        (
            "image",
            deployment(ready=0),
            [pending(waiting("ImagePullBackOff", "not found"))],
            "pulling",
            "ImagePullFailed",
            "not found",
            True,
        ),
        ("loading", deployment(ready=0), [loading(), loading("m")], "loading", "Loading", "0 of 2", False),
        (
            "crash",
            deployment(ready=0),
            [crashing(ended(1, message="bad model"))],
            "loading",
            "Restarting",
            "Restarted 3 times. Container main ended with exit code 1. It ended with an error. Its last words: bad model",
            True,
        ),
        (
            "oom",
            deployment(ready=0),
            [crashing(ended(137, "OOMKilled"))],
            "loading",
            "Restarting",
            "16Gi",
            True,
        ),
        ("late", deployment(ready=0, conditions=(STUCK,)), [loading()], "loading", "Loading", "0 of 2", True),
        ("one down", deployment(ready=1), [ready(), loading()], "degraded", "Degraded", "1 of 2", False),
        (
            "one stuck",
            deployment(ready=1),
            [ready(), crashing(ended(1))],
            "degraded",
            "Degraded",
            "1 Restarting",
            True,
        ),
        (
            "quota cut",
            deployment(total=1, updated=1, ready=1, conditions=(REFUSED,)),
            [ready()],
            "degraded",
            "Degraded",
            QUOTA,
            False,
        ),
        (
            "shrinking",
            deployment(desired=1),
            [ready("a"), ready("b")],
            "updating",
            "Updating",
            "2 of 1",
            False,
        ),
        ("unseen", deployment(seen=False), [ready("a"), ready("b")], "updating", "Updating", "2 of 2", False),
        (
            "surge",
            deployment(total=3, updated=1),
            [ready("a"), ready("b"), loading()],
            "updating",
            "Updating",
            "2 of 2",
            False,
        ),
        (
            "drained",
            deployment(ready=1),
            [ready(), disrupted("EvictionByEvictionAPI", "x", phase="Running", name="d", deleted=True)],
            "degraded",
            "Degraded",
            "on their way",
            False,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 10 else "",
)
def test_an_endpoint_is_told_by_its_replicas(name, given, pods, stage, reason, said, blocked):
    seen = observe_endpoint(given, pods)
    assert (seen.stage, seen.reason, seen.blocked) == (stage, reason, blocked)
    assert said in seen.message
    assert (seen.interruption, seen.final) == (False, False)
    phase = {
        "creating": Phase.ADMITTED,
        "scheduling": Phase.ADMITTED,
        "pulling": Phase.STARTING,
        "loading": Phase.STARTING,
    }
    assert seen.reason in REASONS[phase.get(seen.stage, Phase.RUNNING)]


def test_an_endpoint_began_when_the_first_of_its_pods_did():
    late = {"running": {"startedAt": "2026-11-01T10:30:00Z"}}
    pods = [pod(name=name, containers=(container(state),)) for name, state in (("b", late), ("a", running()))]
    first = observe_endpoint(deployment(), pods[1:]).started_at
    assert first is not None
    assert observe_endpoint(deployment(), pods).started_at == first
    assert observe_endpoint(deployment(), pods[:1]).started_at > first
    assert observe_endpoint(deployment(), []).started_at is None


def test_numbers_are_those_of_the_deployment():
    seen = observe_endpoint(
        deployment(desired=3, total=3, updated=3, ready=1), [ready(), loading(), loading("m")]
    )
    assert (seen.ready_replicas, seen.desired_replicas, seen.pods_alive) == (1, 3, 3)


def test_a_deployment_that_is_gone_is_absent_and_its_pods_still_count():
    seen = observe_endpoint(None, [ready()])
    assert (seen.stage, seen.reason, seen.exists) == (Stage.ABSENT, Reason.DELETED_EXTERNALLY, False)
    assert seen.pods_alive == 1


def test_pods_that_ended_do_not_hold_gpus():
    gone = pod("Failed", name="g", reason="Evicted", message="The node was low on resource: memory.")
    seen = observe_endpoint(deployment(desired=1, total=1, updated=1, ready=1), [ready(), gone])
    assert (seen.stage, seen.pods_alive, len(seen.pods)) == (Stage.READY, 1, 2)


NO_PODS = deployment(desired=0, total=0, updated=0, ready=0)
SERVING = deployment(desired=1, total=1, updated=1, ready=1)


def scaled(*conditions, **status):
    told = [dict(zip(("type", "status", "reason", "message"), each, strict=True)) for each in conditions]
    return {
        "kind": "ScaledObject",
        "spec": {"minReplicaCount": 0, "maxReplicaCount": 4},
        "status": {"conditions": told, **status},
    }


def autoscaler(*conditions, value="35", desired=1):
    told = [dict(zip(("type", "status", "reason", "message"), each, strict=True)) for each in conditions]
    external = {"metric": {"name": "s0-prometheus"}, "target": {"type": "Value", "value": "70"}}
    current = {"metric": {"name": "s0-prometheus"}, "current": {"value": value}}
    return {
        "kind": "HorizontalPodAutoscaler",
        "spec": {"minReplicas": 1, "maxReplicas": 4, "metrics": [{"type": "External", "external": external}]},
        "status": {
            "desiredReplicas": desired,
            "currentMetrics": [{"type": "External", "external": current}],
            "conditions": told,
        },
    }


FINE = ("Ready", "True", "ScaledObjectReady", "ScaledObject is defined correctly")


def test_no_replica_is_scaled_to_zero_only_once_the_last_pod_is_gone():
    asleep = observe_endpoint(NO_PODS, [], (), [scaled(FINE)])
    assert (asleep.stage, asleep.reason) == (Stage.ASLEEP, Reason.SCALED_TO_ZERO)
    going = observe_endpoint(NO_PODS, [ready()], (), [scaled(FINE)])
    assert going.reason is not Reason.SCALED_TO_ZERO
    wanted = observe_endpoint(deployment(desired=1, total=0, updated=0, ready=0), [], (), [scaled(FINE)])
    assert wanted.stage is Stage.CREATING


@pytest.mark.parametrize(
    ("companions", "said"),
    [
        ([scaled(("Ready", "False", "TriggerError", "no such host"))], "TriggerError: no such host"),
        (
            [scaled(FINE, health={"s0-prometheus": {"numberOfFailures": 4, "status": "Failing"}})],
            "s0-prometheus failed 4 times",
        ),
        (
            [scaled(FINE, ("HPAActive", "False", "HPAMetricsUnavailable", "no metrics"))],
            "HPAMetricsUnavailable",
        ),
        (
            [scaled(FINE), autoscaler(("ScalingActive", "False", "FailedGetExternalMetric", "not found"))],
            "FailedGetExternalMetric: not found",
        ),
    ],
    ids=["trigger", "metric", "autoscaler idle", "autoscaler failed"],
)
def test_a_scaler_that_cannot_work_is_a_state_of_its_own(companions, said):
    seen = observe_endpoint(SERVING, [ready()], (), companions)
    assert (seen.stage, seen.reason) == (Stage.DEGRADED, Reason.SCALER_FAILED)
    assert said in seen.message


@pytest.mark.parametrize(
    ("companion", "fix"),
    [
        (scaled(("Ready", "False", "TriggerError", "no such host")), "scaler_prometheus_url"),
        (scaled(("Ready", "False", "ScaledObjectCheckFailed", "managed by the hpa x")), "another scaler"),
        (scaled(("Ready", "False", "ErrorScalingTarget", "forbidden")), "KEDA's rights"),
        (scaled(("Ready", "False", "SomethingNew", "?")), "KEDA's operator"),
        (
            scaled(FINE, health={"s0-prometheus": {"numberOfFailures": 4, "status": "Failing"}}),
            "scaler_prometheus_url",
        ),
        (scaled(FINE, ("HPAActive", "False", "HPAMetricsUnavailable", "none")), "KEDA's metrics API server"),
        (scaled(FINE, ("HPAActive", "False", "FailedGetResourceMetric", "none")), "metrics-server"),
        (autoscaler(("ScalingActive", "False", "FailedGetExternalMetric", "none")), "Check the query"),
        (autoscaler(("ScalingActive", "False", "AmbiguousSelector", "two")), "Delete the other one"),
        (autoscaler(("AbleToScale", "False", "FailedUpdateScale", "conflict")), "autoscaler's rights"),
        (autoscaler(("ScalingActive", "False", "SomethingNew", "?")), "kubectl describe"),
    ],
)
def test_whatever_a_scaler_lacks_the_sentence_after_it_names_the_way_out(companion, fix):
    message = observe_endpoint(SERVING, [ready()], (), [companion]).message
    before, _, after = message.partition(fix)
    assert after, message
    assert before


def test_neither_the_cause_nor_the_way_out_is_cut_off_by_a_long_query():
    url = f"http://prometheus:9090/api/v1/query?query={'sum%28rate' * 300}&time=2026-07-29T10:00:00Z"
    told = scaled(("Ready", "False", "TriggerError", f'Get "{url}": dial tcp: no such host'))
    message = observe_endpoint(SERVING, [ready()], (), [told]).message
    assert 'Get "http://prometheus:9090/api/v1/query?…": dial tcp: no such host. Check the query' in message
    said = scaled(("Ready", "False", "TriggerError", "long " * 1000))
    assert "scaler_prometheus_url" in observe_endpoint(SERVING, [ready()], (), [said]).message


def test_what_is_worse_than_its_scaler_comes_first():
    failed = scaled(("Ready", "False", "TriggerError", "no such host"))
    seen = observe_endpoint(deployment(ready=0), [crashing(ended(1))], (), [failed])
    assert seen.reason is Reason.RESTARTING
    assert seen.scaler.failure


def test_an_autoscaler_that_rests_at_zero_has_not_failed():
    rests = autoscaler(
        ("ScalingActive", "False", "ScalingDisabled", "the replica count of the target is zero")
    )
    seen = observe_endpoint(NO_PODS, [], (), [scaled(FINE), rests])
    assert seen.reason is Reason.SCALED_TO_ZERO


def test_fallback_is_told():
    fallen = scaled(
        FINE,
        ("Fallback", "True", "FallbackExists", "At least one trigger is falling back"),
        health={"s0-prometheus": {"numberOfFailures": 4, "status": "Failing"}},
    )
    seen = observe_endpoint(SERVING, [ready()], (), [fallen])
    assert "fallback replicas run" in seen.message
    assert seen.scaler.falls_back


IDLE = ("Active", "False", "ScalerNotActive", "Scaling is not performed because triggers are not active")


@pytest.mark.parametrize(("deployment", "why"), [(SERVING, "ReadyForNewScale"), (NO_PODS, "ScalerNotActive")])
def test_that_nobody_calls_is_why_it_sleeps_and_not_why_it_shrinks(deployment, why):
    shrinks = autoscaler(("AbleToScale", "True", "ReadyForNewScale", "recommended size matches"))
    seen = observe_endpoint(deployment, [], (), [scaled(FINE, IDLE), shrinks])
    assert seen.scaler.decision == why


def test_the_numbers_of_the_scaler_are_read():
    facts = observe_endpoint(
        SERVING, [ready()], (), [scaled(FINE), autoscaler(value="104500m", desired=2)]
    ).scaler
    assert (facts.minimum, facts.maximum, facts.wanted, facts.reach) == (0, 4, 2, 4)
    assert (facts.metric, facts.value, facts.target) == ("s0-prometheus", pytest.approx(104.5), 70)


def test_a_scaler_reaches_as_far_as_the_furthest_of_its_objects():
    follows_late = autoscaler(desired=2)
    follows_late["spec"]["maxReplicas"] = 6
    assert observe_endpoint(SERVING, [ready()], (), [scaled(FINE), follows_late]).scaler.reach == 6
    held = {**scaled(FINE), "metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "9"}}}
    assert observe_endpoint(SERVING, [ready()], (), [held]).scaler.reach == 9


@pytest.mark.parametrize("text", ["9" * 5000, "-3", "some", ""])
def test_a_held_number_that_is_none_is_left_out(text):
    spoilt = {**scaled(FINE), "metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": text}}}
    seen = [observe_endpoint(SERVING, [ready()], (), [each]).scaler.reach for each in (scaled(FINE), spoilt)]
    assert seen[0] == seen[1]


def marked(deployment, scaler):
    return {
        **deployment,
        "metadata": {**deployment["metadata"], "annotations": {"mlportal.dev/scaler": scaler}},
    }


def test_a_scaler_that_is_gone_is_noticed_and_wanted_again():
    seen = observe_endpoint(marked(SERVING, "keda"), [ready()], (), ())
    assert (seen.reason, seen.incomplete) == (Reason.SCALER_FAILED, True)
    orphan = observe_endpoint(marked(SERVING, "keda"), [ready()], (), [autoscaler()])
    assert orphan.incomplete
    there = observe_endpoint(marked(SERVING, "keda"), [ready()], (), [scaled(FINE)])
    assert (there.reason, there.incomplete) == (Reason.READY, False)


def test_what_sleeps_without_its_scaler_is_not_ready():
    seen = observe_endpoint(marked(NO_PODS, "keda"), [], (), ())
    assert (seen.reason, seen.incomplete) == (Reason.SCALED_TO_ZERO, True)
    assert "made again" in seen.message


def test_what_nothing_can_scale_any_more_says_so_and_is_left_alone():
    seen = observe_endpoint(marked(SERVING, "none"), [ready()], (), ())
    assert (seen.reason, seen.incomplete) == (Reason.SCALER_FAILED, False)
    assert "KEDA" in seen.message
