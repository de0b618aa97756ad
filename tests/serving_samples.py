"""Requests for endpoints of every runtime on every shape of GPU; their manifests are kept as golden files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RUNTIME_REQUESTS: Mapping[str, dict[str, Any]] = {
    "custom": {
        "image": "registry.example.com/vision/server:1.0",
        "args": ["--threads", "4"],
        "model": {"uri": "https://models.example.com/digits/1.tar.gz"},
        "ports": {"metrics": 9090},
        "probes": {"readiness": {"path": "/ready"}},
    },
    "triton": {
        "image": "nvcr.io/nvidia/tritonserver:24.12-py3",
        "model": {"uri": "s3://models/vision", "secret": "s3-read", "size_limit": "20Gi"},
        "runtime_options": {"models": ["resnet50", "digits"]},
        "request_timeout_seconds": 90,
    },
    "torchserve": {
        "image": "pytorch/torchserve:0.12.0-gpu",
        "model": {"claim": "model-store"},
        "runtime_options": {
            "models": ["text-classifier=bert-classifier.mar"],
            "batch_size": 32,
            "max_batch_delay_ms": 100,
        },
    },
    "vllm": {
        "image": "vllm/vllm-openai:v0.21.0",
        "args": ["--dtype=bfloat16"],
        "model": {"claim": "llms", "path": "/llms"},
        "runtime_options": {
            "models": ["llama-3.1-8b-instruct"],
            "batch_size": 64,
            "max_model_len": 8192,
            "gpu_memory_utilization": 0.45,
            "served_model_name": "llama",
        },
        "probes": {"load_budget_seconds": 1800},
    },
}
SHAPES: Mapping[str, tuple[str, str]] = {
    "whole": ("a100-40gb", "nvidia.com/gpu"),
    "mig": ("a100-mig-1g.10gb", "nvidia.com/mig-1g.10gb"),
    "shared": ("t4-shared", "nvidia.com/gpu.shared"),
}
"""Flavor and resource name."""


def runtime_bodies() -> dict[str, dict[str, Any]]:
    """By name such as `triton_on_mig`."""
    return {
        f"{runtime}_on_{shape}": {
            "name": runtime,
            "runtime": runtime,
            "flavor": flavor,
            "gpus_per_replica": 2 if (runtime, shape) == ("vllm", "whole") else 1,
            "cpu": "4",
            "memory": "16Gi",
            **request,
        }
        for runtime, request in RUNTIME_REQUESTS.items()
        for shape, (flavor, _) in SHAPES.items()
    }


def resource_of(name: str) -> str:
    return SHAPES[name.rpartition("_")[2]][1]
