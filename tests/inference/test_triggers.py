"""A trigger is one row: what forms, checks and scalers do with it follows from that."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from inference import scaling_spec, triggers
from inference.autoscaling.scalers import ScalerPlatform, build_scaler, needs_prometheus
from inference.promql import AVERAGE, Signal
from inference.scaling_spec import scaling_problems
from inference.specs import EndpointSpec
from inference.triggers import TRIGGERS, Trigger
from tests.inference.scaler_samples import body
from tests.manifest_samples import placement

GPU_MEMORY = Trigger(
    name="gpu-memory",
    label="percent of the card's memory",
    query=lambda subject: Signal(f'avg(DCGM_FI_DEV_FB_USED{{pod=~"{subject.object_name}-.*"}})', AVERAGE),
    threshold=80,
    percentage=True,
    of_gpus="GPU memory",
    of_whole_card=True,
    nothing_at_zero="GPU memory is measured on the endpoint's own pods",
)


@pytest.fixture
def gpu_memory(monkeypatch):
    rows = MappingProxyType({**TRIGGERS, GPU_MEMORY.name: GPU_MEMORY})
    for module in (triggers, scaling_spec):
        monkeypatch.setattr(module, "TRIGGERS", rows)


def problems(*, has_gpus=True, to_zero=False, **scaling):
    asked = {"trigger": "gpu-memory", **scaling}
    found = scaling_problems(
        asked, runtime="custom", minimum=1, maximum=3, to_zero=to_zero, has_gpus=has_gpus
    )
    return [(path, fault.code, fault.message) for path, fault in found]


@pytest.mark.usefixtures("gpu_memory")
def test_a_new_row_is_checked_as_its_columns_say():
    assert problems() == []
    (no_gpu,) = problems(has_gpus=False)
    assert no_gpu[1:] == ("no_gpu", "It asks for no GPU, so there is no GPU memory to scale by.")
    (too_much,) = problems(threshold=101)
    assert too_much[:2] == ("scaling.threshold", "out_of_range")
    (asleep,) = problems(to_zero=True)
    assert "GPU memory is measured on the endpoint's own pods" in asleep[2]
    assert [each[:2] for each in problems(query="up")] == [("scaling.query", "without_effect")]
    assert [
        each[:2] for each in problems(schedule=[{"start": "0 8 * * *", "end": "0 9 * * *", "replicas": 1}])
    ] == [("scaling.schedule", "without_effect")]


@pytest.mark.usefixtures("gpu_memory")
def test_a_new_row_scales_by_its_query_and_its_usual_threshold():
    spec = EndpointSpec.from_json(body("gpu-memory"))
    scaler = build_scaler(spec, placement("digits", "endpoint", object_name="digits-1"), ScalerPlatform())
    assert scaler is not None
    (trigger,) = scaler["spec"]["triggers"]
    assert trigger["metadata"]["query"] == 'avg(DCGM_FI_DEV_FB_USED{pod=~"digits-1-.*"})'
    assert (trigger["metadata"]["threshold"], trigger["metricType"]) == ("80", "Value")
    assert needs_prometheus(spec)


def test_every_row_is_of_a_type_that_a_scaler_is_written_for():
    for row in TRIGGERS.values():
        assert row.asks_prometheus == (row.scaler == "prometheus"), row.name
        assert row.scheduled or row.own_query or row.threshold is not None, row.name
