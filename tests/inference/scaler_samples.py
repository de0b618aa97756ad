"""Endpoints by what they scale by, and the golden files of their scalers: python -m tests.inference.scaler_samples"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inference.autoscaling.scalers import AUTOSCALER, KEDA, ScalerPlatform
from inference.manifests import build_endpoint
from inference.specs import EndpointSpec
from tests.manifest_samples import placement, write_golden
from workloads.podspec.pod_template import ManifestSet

FOLDER = Path(__file__).parent / "golden_scalers"
MIG = "nvidia.com/mig-1g.10gb"
GPU = {"flavor": "a100-40gb", "gpus_per_replica": 1}
SHIFT = {"start": "0 8 * * 1-5", "end": "0 18 * * 1-5", "timezone": "Europe/Berlin", "replicas": 4}


def body(trigger: str, *, runtime: str = "custom", **more: Any) -> dict[str, Any]:
    scaling = {"trigger": trigger, **more.pop("scaling", {})}
    model = {"claim": "models", "path": "/models"} if runtime != "custom" else None
    return {
        "name": "digits",
        "image": "example.org/serve:1",
        "runtime": runtime,
        "model": model,
        "min_replicas": 1,
        "max_replicas": 6,
        "scaling": scaling,
        **more,
    }


SCALED: Mapping[str, dict[str, Any]] = {
    "gpu_utilization": body("gpu-utilization", scaling={"fallback_replicas": 2}, **GPU),
    "gpu_utilization_of_mig": body("gpu-utilization", flavor="a100-mig-1g.10gb", gpus_per_replica=1),
    "queue_latency_of_triton": body(
        "queue-latency", runtime="triton", scaling={"fallback_replicas": 2}, **GPU
    ),
    "queue_latency_of_torchserve": body("queue-latency", runtime="torchserve", **GPU),
    "queue_latency_of_vllm": body("queue-latency", runtime="vllm", **GPU),
    "queue_depth_of_vllm": body("queue-depth", runtime="vllm", **GPU),
    "requests_per_second": body("requests-per-second", scaling={"threshold": 12.5}),
    "in_flight_to_zero": body("in-flight", scale_to_zero=True),
    "in_flight_to_zero_and_back_to_two": body("in-flight", scale_to_zero=True, min_replicas=2),
    "prometheus_of_a_total": body("prometheus", scaling={"query": "sum(jobs_waiting)", "threshold": 5}),
    "prometheus_to_zero": body(
        "prometheus",
        scale_to_zero=True,
        scaling={"query": "avg(lag_seconds) or vector(0)", "threshold": 30, "activation_threshold": 1},
    ),
    "cpu": body("cpu", scaling={"threshold": 60, "scale_down_stabilization_seconds": 120}),
    "cpu_without_keda": body("cpu", scaling={"threshold": 60}),
    "cron": body("cron", scaling={"schedule": [SHIFT]}),
}
WITHOUT_KEDA = frozenset({"cpu_without_keda"})


def built_one(name: str) -> ManifestSet:
    where = placement("digits", "endpoint", resource_name=MIG if "mig" in name else "nvidia.com/gpu")
    engine = AUTOSCALER if name in WITHOUT_KEDA else KEDA
    platform = ScalerPlatform(engine=engine, prometheus_url="http://prometheus.monitoring.svc:9090")
    spec = EndpointSpec.from_json(SCALED[name])
    return build_endpoint(spec, where, replicas=spec.min_replicas, platform=platform)


def built() -> dict[str, ManifestSet]:
    """Of each sample its scaler alone: the last object."""
    return {name: ManifestSet(built_one(name).dependants[-1]) for name in SCALED}


if __name__ == "__main__":
    write_golden(FOLDER, built())
