from __future__ import annotations

import pytest

from tests.waiting import until, until_equal

from .kube import gone
from .scaledobjects import AT_ONCE, HPA, NAME, SLOW

BROKEN = RuntimeError("the metric source is down")


def test_it_makes_an_autoscaler_and_says_how_it_is(scaled):
    scaled.deploy()
    scaled.create()
    until_equal(lambda: scaled.word("Ready"), ("True", "ScaledObjectReady"))
    until_equal(lambda: scaled.word("HPAActive"), ("True", "HPAActive"), seconds=SLOW)
    seen = scaled.read()
    until_equal(lambda: scaled.word("Active"), ("False", "ScalerNotActive"), seconds=SLOW)
    until_equal(lambda: scaled.word("Fallback"), ("False", "NoFallbackFound"), seconds=SLOW)
    until_equal(lambda: scaled.word("Paused"), ("False", ""), seconds=SLOW)
    assert not any("lastTransitionTime" in each for each in seen["status"]["conditions"])
    assert seen["metadata"]["finalizers"] == ["finalizer.keda.sh"]
    assert seen["metadata"]["labels"] == {"team": "vision", "scaledobject.keda.sh/name": NAME}
    status = {k: v for k, v in seen["status"].items() if k != "conditions"}
    assert status == {
        "authenticationsTypes": "",
        "externalMetricNames": ["s0-prometheus"],
        "hpaName": HPA,
        "originalReplicaCount": 1,
        "scaleTargetGVKR": {
            "group": "apps",
            "kind": "Deployment",
            "resource": "deployments",
            "version": "v1",
        },
        "scaleTargetKind": "apps/v1.Deployment",
        "triggersActivity": {"s0-prometheus": {"isActive": False}},
        "triggersTypes": "prometheus",
    }
    assert scaled.event("KEDAScalersStarted")
    assert scaled.event("ScaledObjectReady")


def test_the_autoscaler_is_owned_and_has_the_bounds_the_metric_and_the_behavior(scaled):
    scaled.deploy()
    made = scaled.create(minReplicaCount=0, maxReplicaCount=7)
    hpa = until(scaled.hpa)
    (owner,) = hpa["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "ScaledObject",
        made["metadata"]["uid"],
        True,
    )
    labels = hpa["metadata"]["labels"]
    assert (labels["app.kubernetes.io/managed-by"], labels["team"]) == ("keda-operator", "vision")
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert hpa["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
        "minReplicas": 1,
        "maxReplicas": 7,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "s0-prometheus", "selector": {"matchLabels": {"scaledobject.keda.sh/name": NAME}}},
                    "target": {"type": "AverageValue", "averageValue": "2"},
                },
            }
        ],
        "behavior": {
            "scaleUp": {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [{**percent, "type": "Pods", "value": 4}, percent],
            },
            "scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [percent]},
        },
    }  # fmt: skip


def test_load_scales_up_and_its_end_scales_down(scaled):
    scaled.deploy()
    scaled.meter.value = 5.0
    scaled.create()
    until_equal(scaled.replicas, 3, seconds=SLOW)
    until_equal(lambda: (scaled.hpa() or {}).get("status", {}).get("currentReplicas"), 3, seconds=SLOW)
    status = scaled.hpa()["status"]
    assert status["currentMetrics"][0]["external"]["current"] == {"averageValue": "1667m"}
    until_equal(lambda: scaled.hpa_word("AbleToScale"), ("True", "ReadyForNewScale"), seconds=SLOW)
    until_equal(lambda: scaled.hpa_word("ScalingActive"), ("True", "ValidMetricFound"), seconds=SLOW)
    until_equal(lambda: scaled.hpa_word("ScalingLimited"), ("False", "DesiredWithinRange"), seconds=SLOW)
    until_equal(lambda: scaled.word("Active"), ("True", "ScalerActive"), seconds=SLOW)
    assert "lastActiveTime" in scaled.read()["status"]
    until_equal(lambda: scaled.deployment().status.ready_replicas, 3)
    scaled.meter.value = 0.0
    until_equal(scaled.replicas, 1, seconds=SLOW)
    text = scaled.event("SuccessfulRescale", "HorizontalPodAutoscaler")
    assert text.startswith("New size: ")
    until_equal(lambda: scaled.hpa_word("ScalingLimited"), ("True", "TooFewReplicas"), seconds=SLOW)


def test_more_than_the_maximum_is_held_at_it(scaled):
    scaled.deploy()
    scaled.meter.value = 1000.0
    scaled.create(maxReplicaCount=3)
    until_equal(scaled.replicas, 3, seconds=SLOW)
    until_equal(lambda: scaled.hpa_word("ScalingLimited"), ("True", "TooManyReplicas"), seconds=SLOW)


def test_an_average_multiplies_what_there_is_and_small_changes_are_none(scaled):
    scaled.deploy(replicas=2)
    # Half as much again for each of the two makes three.
    scaled.meter.value = 3.0
    scaled.create(maxReplicaCount=3, triggers=[scaled.prometheus(metric_type="Value")])
    until_equal(scaled.replicas, 3, seconds=SLOW)
    assert scaled.hpa()["spec"]["metrics"][0]["external"]["target"] == {"type": "Value", "value": "2"}
    until_equal(lambda: scaled.deployment().status.ready_replicas, 3)
    # Within a tenth of the target nothing changes.
    scaled.meter.value = 1.9

    def seen():
        metrics = scaled.hpa()["status"].get("currentMetrics") or [{}]
        return metrics[0].get("external", {}).get("current") == {"value": "1900m"}

    until(seen, seconds=SLOW)
    until_equal(lambda: scaled.hpa_word("ScalingLimited"), ("False", "DesiredWithinRange"), seconds=SLOW)
    assert scaled.replicas() == 3


def test_idle_goes_to_zero_and_load_wakes_it(scaled):
    scaled.deploy()
    scaled.create(minReplicaCount=0, cooldownPeriod=1)
    until_equal(scaled.replicas, 0, seconds=SLOW)
    until_equal(lambda: scaled.hpa_word("ScalingActive"), ("False", "ScalingDisabled"), seconds=SLOW)
    until_equal(lambda: scaled.word("HPAActive"), ("True", "ScalingDisabled"), seconds=SLOW)
    until_equal(lambda: scaled.word("Ready"), ("True", "ScaledObjectReady"), seconds=SLOW)
    until_equal(lambda: scaled.word("Active"), ("False", "ScalerNotActive"), seconds=SLOW)
    text = scaled.event("KEDAScaleTargetDeactivated")
    assert text == f"Deactivated apps/v1.Deployment {scaled.ns}/{NAME} from 1 to 0"
    scaled.meter.value = 0.5
    until_equal(scaled.replicas, 1, seconds=SLOW)
    text = scaled.event("KEDAScaleTargetActivated")
    assert text == f"Scaled apps/v1.Deployment {scaled.ns}/{NAME} from 0 to 1, triggered by s0-prometheus"
    until_equal(lambda: scaled.word("HPAActive"), ("True", "HPAActive"), seconds=SLOW)
    scaled.meter.value = 0.0
    until_equal(scaled.replicas, 0, seconds=SLOW)


def test_less_than_the_activation_threshold_does_not_wake_and_cooling_is_said(scaled):
    scaled.deploy()
    scaled.meter.value = 5.0
    scaled.create(
        minReplicaCount=0, cooldownPeriod=600, triggers=[scaled.prometheus(activationThreshold="4")]
    )
    until_equal(lambda: scaled.word("Active"), ("True", "ScalerActive"))
    scaled.meter.value = 4.0
    until_equal(lambda: scaled.word("Active"), ("False", "ScalerCooldown"), seconds=SLOW)
    assert scaled.replicas() >= 1


def test_activation_can_be_forced(scaled):
    scaled.deploy(replicas=0)
    scaled.create(minReplicaCount=0, cooldownPeriod=1)
    until_equal(lambda: scaled.word("Active"), ("False", "ScalerNotActive"))
    scaled.annotate(force_activation="true")
    until_equal(scaled.replicas, 1, seconds=SLOW)
    until_equal(lambda: scaled.word("Active"), ("True", "ScalerActive"), seconds=SLOW)
    text = scaled.event("KEDAScaleTargetActivated")
    assert text.endswith("from 0 to 1, caused by forced activation annotation")
    scaled.annotate(force_activation=None)
    until_equal(scaled.replicas, 0, seconds=SLOW)


def test_without_its_metric_it_holds_still_and_says_so(scaled):
    scaled.deploy(replicas=2)
    scaled.meter.value = BROKEN
    scaled.create()
    until_equal(lambda: scaled.word("Ready"), ("False", "TriggerError"), seconds=SLOW)
    until_equal(lambda: scaled.hpa_word("ScalingActive"), ("False", "FailedGetExternalMetric"), seconds=SLOW)
    until_equal(lambda: scaled.word("HPAActive"), ("False", "FailedGetExternalMetric"), seconds=SLOW)
    assert scaled.replicas() == 2
    assert scaled.hpa()["status"]["currentMetrics"] == [{"type": ""}]
    assert scaled.event("KEDAScalerFailed") == "prometheus query api returned error. status: 500"
    scaled.meter.value = 4.0
    until_equal(lambda: scaled.word("Ready"), ("True", "ScaledObjectReady"), seconds=SLOW)
    until_equal(lambda: scaled.word("HPAActive"), ("True", "HPAActive"), seconds=SLOW)


def test_the_fallback_is_taken_and_left(scaled):
    scaled.deploy()
    scaled.meter.value = BROKEN
    scaled.create(fallback={"failureThreshold": 2, "replicas": 3})
    until_equal(lambda: scaled.word("Fallback"), ("True", "FallbackExists"), seconds=SLOW)
    until_equal(scaled.replicas, 3, seconds=SLOW)
    health = scaled.read()["status"]["health"]["s0-prometheus"]
    assert health["status"] == "Failing"
    assert health["numberOfFailures"] > 2
    until_equal(lambda: scaled.word("Active"), ("True", "ScalerActive"), seconds=SLOW)
    scaled.meter.value = 1.0
    until_equal(lambda: scaled.word("Fallback"), ("False", "NoFallbackFound"), seconds=SLOW)
    until_equal(scaled.replicas, 1, seconds=SLOW)
    assert scaled.read()["status"]["health"]["s0-prometheus"] == {"numberOfFailures": 0, "status": "Happy"}


def test_no_element_is_zero_unless_that_is_an_error(scaled):
    scaled.deploy()
    scaled.meter.value = None
    scaled.create(triggers=[scaled.prometheus(ignoreNullValues="false")])
    until_equal(lambda: scaled.word("Ready"), ("False", "TriggerError"), seconds=SLOW)
    scaled.patch({"spec": {"triggers": [scaled.prometheus()]}})
    until_equal(lambda: scaled.word("Ready"), ("True", "ScaledObjectReady"), seconds=SLOW)


@pytest.mark.parametrize(("replicas", "after"), [("0", 0), ("3", 3)])
def test_paused_at_a_number_of_replicas_it_has_no_autoscaler(scaled, replicas, after):
    scaled.deploy()
    scaled.create()
    until(scaled.hpa)
    scaled.annotate(paused_replicas=replicas)
    until_equal(scaled.replicas, after)
    until(lambda: scaled.hpa() is None)
    until_equal(lambda: scaled.word("Paused"), ("True", "ScaledObjectPaused"))
    until_equal(lambda: scaled.read()["status"].get("pausedReplicaCount"), after)
    scaled.annotate(paused_replicas=None)
    until_equal(lambda: scaled.word("Paused"), ("False", "ScaledObjectUnpaused"))
    until(scaled.hpa)
    until_equal(scaled.replicas, 1, seconds=SLOW)
    assert "pausedReplicaCount" not in scaled.read()["status"]


def test_paused_it_stays_as_it_is(scaled):
    scaled.deploy(replicas=2)
    scaled.create({"autoscaling.keda.sh/paused": "yes, please"})
    until_equal(lambda: scaled.word("Paused"), ("True", "ScaledObjectPaused"))
    assert scaled.hpa() is None
    assert scaled.replicas() == 2


def test_a_changed_spec_changes_the_autoscaler(scaled):
    scaled.deploy()
    scaled.create()
    uid = until(scaled.hpa)["metadata"]["uid"]
    slow = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": slow}}
    scaled.patch(
        {
            "spec": {
                "maxReplicaCount": 9,
                "advanced": advanced,
                "triggers": [scaled.prometheus(threshold="0.25")],
            }
        }
    )
    until_equal(lambda: scaled.hpa()["spec"]["maxReplicas"], 9)
    # KEDA writes the autoscaler once for its bounds and again for its metrics.
    until_equal(lambda: scaled.hpa()["spec"]["metrics"][0]["external"]["target"]["averageValue"], "250m")
    spec = scaled.hpa()["spec"]
    assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 60
    assert scaled.hpa()["metadata"]["uid"] == uid


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ({"type": "no-such-thing", "metadata": {}}, "no scaler found for type: no-such-thing"),
        (
            {"type": "prometheus", "metadata": {"serverAddress": "http://x"}},
            'missing required parameter "query"',
        ),
        (
            {"type": "prometheus", "metricType": "Utilization", "metadata": {}},
            "'Utilization' metric type is unsupported for external metrics",
        ),
        (
            {
                "type": "cron",
                "metadata": {"start": "0 8 * * *", "end": "x", "timezone": "UTC", "desiredReplicas": "1"},
            },
            "error parsing end schedule: expected exactly 5 fields, found 1",
        ),
    ],
)
def test_a_trigger_that_cannot_be_built_is_said(scaled, trigger, said):
    scaled.deploy()
    scaled.create(triggers=[trigger])
    until_equal(lambda: scaled.word("Ready"), ("False", "ScaledObjectCheckFailed"))
    until_equal(lambda: scaled.word("Active"), ("Unknown", "UnknownState"), seconds=SLOW)
    (ready,) = (c for c in scaled.read()["status"]["conditions"] if c["type"] == "Ready")
    assert ready["message"].startswith("failed to ensure HPA is correctly created for ScaledObject: ")
    assert said in ready["message"]
    assert scaled.hpa() is None


def test_it_waits_for_its_target(scaled):
    scaled.create()
    until_equal(lambda: scaled.word("Ready"), ("False", "ScaledObjectCheckFailed"))
    (ready,) = (c for c in scaled.read()["status"]["conditions"] if c["type"] == "Ready")
    assert ready["message"].startswith("ScaledObject doesn't have correct scaleTargetRef specification: ")
    scaled.deploy()
    until_equal(lambda: scaled.word("Ready"), ("True", "ScaledObjectReady"), seconds=SLOW)


@pytest.mark.parametrize("restored", [False, True])
def test_deleted_it_takes_the_autoscaler_along_and_leaves_the_replicas(scaled, restored):
    scaled.deploy()
    scaled.meter.value = 6.0
    config = {
        "horizontalPodAutoscalerConfig": {"behavior": AT_ONCE},
        "restoreToOriginalReplicaCount": restored,
    }
    scaled.create(advanced=config)
    until_equal(scaled.replicas, 3, seconds=SLOW)
    # KEDA tries to restore once, and gives up on a conflict with whoever writes the Deployment meanwhile.
    until(lambda: scaled.deployment().status.ready_replicas == 3, seconds=SLOW)
    scaled.kube.request("DELETE", f"{scaled.path}/{NAME}")
    seen = []
    # The real autoscaler may look once more after KEDA restored the number, before it is collected itself.
    until(lambda: seen.append(scaled.replicas()) or (gone(scaled.read)() and scaled.hpa() is None))
    assert (1 in [*seen, scaled.replicas()]) == restored


def test_idle_replicas_are_fewer_than_the_minimum_to_which_it_wakes(scaled):
    scaled.deploy(replicas=2)
    scaled.create(minReplicaCount=2, idleReplicaCount=0, cooldownPeriod=1)
    until_equal(scaled.replicas, 0, seconds=SLOW)
    scaled.meter.value = 0.5
    until_equal(scaled.replicas, 2, seconds=SLOW)
    scaled.meter.value = 7.0
    until_equal(scaled.replicas, 4, seconds=SLOW)
    scaled.meter.value = 0.0
    until_equal(scaled.replicas, 0, seconds=SLOW)


def test_one_way_pauses_keep_the_autoscaler(scaled):
    scaled.deploy(replicas=2)
    scaled.create({"autoscaling.keda.sh/paused-scale-in": "true"})
    until_equal(lambda: scaled.word("Paused"), ("True", "ScaledObjectPaused"))
    hpa = until(scaled.hpa)
    assert hpa["spec"]["behavior"]["scaleDown"]["selectPolicy"] == "Disabled"
    until_equal(lambda: scaled.hpa_word("ScalingActive"), ("True", "ValidMetricFound"), seconds=SLOW)
    assert scaled.replicas() == 2
    scaled.annotate(paused_scale_in=None)
    until_equal(scaled.replicas, 1, seconds=SLOW)
    until_equal(lambda: scaled.word("Paused"), ("False", "ScaledObjectUnpaused"), seconds=SLOW)


def test_of_two_triggers_the_one_that_asks_for_more_decides(scaled):
    scaled.deploy()
    always = {"start": "0 0 1 1 *", "end": "59 23 31 12 *", "timezone": "Etc/UTC", "desiredReplicas": "2"}
    scaled.meter.value = 7.0
    scaled.create(triggers=[{"type": "cron", "metadata": always}, scaled.prometheus()])
    until_equal(scaled.replicas, 4, seconds=SLOW)
    assert scaled.read()["status"]["externalMetricNames"] == [
        "s0-cron-Etc-UTC-0011x-59233112x",
        "s1-prometheus",
    ]
    # All day and all year is within the hours of the schedule, which holds its number.
    scaled.meter.value = 1.0
    until_equal(scaled.replicas, 2, seconds=SLOW)
    # One that fails does not stop the other from asking for more, but from asking for less.
    scaled.meter.value = BROKEN
    until_equal(lambda: scaled.word("Ready"), ("Unknown", "PartialTriggerError"), seconds=SLOW)
    assert scaled.replicas() == 2
