from __future__ import annotations

import pytest

from inference.autoscaling.scalers import (
    FORCE_ACTIVATION,
    PAUSED,
    PAUSED_REPLICAS,
    ScalerPlatform,
    build_scaler,
    steering,
    steering_patch,
)
from inference.promql import Subject, guessed_type, plain
from inference.specs import EndpointSpec
from inference.triggers import TRIGGERS
from tests.inference.scaler_samples import SCALED, built, built_one
from tests.manifest_samples import placement


def test_every_trigger_has_a_sample():
    assert {each["scaling"]["trigger"] for each in SCALED.values()} == set(TRIGGERS)


@pytest.mark.parametrize("name", SCALED)
def test_the_number_of_replicas_is_the_scalers(name):
    manifests = built_one(name)
    assert "replicas" not in manifests.primary["spec"]
    assert manifests.replicas_at_first == SCALED[name]["min_replicas"]


@pytest.mark.parametrize("name", SCALED)
def test_names_leave_room_for_what_keda_makes_of_them(name):
    assert len(built()[name].primary["metadata"]["name"]) <= 54


@pytest.mark.parametrize("name", [name for name in SCALED if name not in {"cpu", "cpu_without_keda", "cron"}])
def test_only_a_sum_is_divided_by_the_replicas(name):
    trigger = built()[name].primary["spec"]["triggers"][0]
    query = trigger["metadata"]["query"]
    assert (trigger["metricType"] == "AverageValue") == (query.startswith("sum(") and " / " not in query)


@pytest.mark.parametrize("name", [name for name in SCALED if SCALED[name].get("scale_to_zero")])
def test_what_scales_to_zero_is_woken_by_requests_that_are_held(name):
    spec = built()[name].primary["spec"]
    queries = [trigger["metadata"]["query"] for trigger in spec["triggers"]]
    assert any("mlportal_gateway_requests_in_flight" in query for query in queries)
    assert 0 in {spec["minReplicaCount"], spec.get("idleReplicaCount")}
    assert spec["initialCooldownPeriod"] >= 600
    assert spec["pollingInterval"] <= 5


def test_a_fixed_number_of_replicas_has_no_scaler():
    fixed = EndpointSpec.from_json({**SCALED["in_flight_to_zero"], "scale_to_zero": False, "max_replicas": 1})
    assert build_scaler(fixed, placement("a", "endpoint"), ScalerPlatform()) is None


def test_a_runtimes_metric_may_be_missing_for_as_long_as_a_model_loads():
    fallback = built()["queue_latency_of_triton"].primary["spec"]
    assert fallback["fallback"]["failureThreshold"] * fallback["pollingInterval"] > 600
    assert built()["gpu_utilization"].primary["spec"]["fallback"]["failureThreshold"] == 3


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sum(a)", "average-value"),
        (" SUM by (x) (a)", "average-value"),
        ("count (a)", "average-value"),
        ("sum without(x)(a)", "average-value"),
        ("avg(a)", "value"),
        ("summary_of_a", "value"),
        ("histogram_quantile(0.9, sum(rate(b[1m])) by (le))", "value"),
        ("100 * avg(a)", "value"),
    ],
)
def test_what_a_query_measures_is_told_by_its_outermost_function(query, said):
    assert guessed_type(query) == said


def test_labels_of_dcgm_are_those_that_the_platform_has():
    def query(*, exported, mig=False):
        subject = Subject("id", "team-a", "digits-1", "custom", mig, exported)
        return TRIGGERS["gpu-utilization"].signal(subject, query=None, metric_type=None).query

    assert 'exported_pod=~"digits-1-[a-z0-9]+-[a-z0-9]+"' in query(exported=True)
    assert '{namespace="team-a",pod=~"digits-1-' in query(exported=False)
    assert "DCGM_FI_DEV_GPU_UTIL" in query(exported=True)
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in query(exported=True, mig=True)


@pytest.mark.parametrize(
    ("value", "text"), [(70, "70"), (70.0, "70"), (0.001, "0.001"), (1e9, "1000000000"), (12.50, "12.5")]
)
def test_numbers_are_written_as_keda_reads_them(value, text):
    assert plain(value) == text


@pytest.mark.parametrize(
    ("paused", "held_at", "wakes", "found", "changes"),
    [
        (False, None, False, {}, {}),
        (False, None, True, {}, {FORCE_ACTIVATION: "true"}),
        (False, None, False, {FORCE_ACTIVATION: "true"}, {FORCE_ACTIVATION: None}),
        (True, None, True, {}, {PAUSED: "true"}),
        (True, 3, False, {PAUSED: "true"}, {PAUSED: None, PAUSED_REPLICAS: "3"}),
        (False, None, False, {PAUSED_REPLICAS: "3"}, {PAUSED_REPLICAS: None}),
        (True, 3, False, {PAUSED_REPLICAS: "3"}, {}),
    ],
)
def test_a_scaled_object_is_steered_by_annotations(paused, held_at, wakes, found, changes):
    companion = {"kind": "ScaledObject", "metadata": {"annotations": {**found, "else": "kept"}}}
    wanted = steering(paused=paused, paused_replicas=held_at, wakes=wakes)
    expected = {"metadata": {"annotations": changes}} if changes else {}
    assert steering_patch(companion, wanted) == expected
    assert steering_patch({"kind": "HorizontalPodAutoscaler", "metadata": {}}, wanted) == {}
