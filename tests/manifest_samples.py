"""Requests and placements whose manifests are kept as golden files, and the way these files are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cluster import labels, names
from tests.serving_samples import resource_of, runtime_bodies
from workloads.placement import Placement
from workloads.podspec.pod_template import ManifestSet

WORKLOAD_ID = "0192f0c1-7d1e-7a3b-9c44-5be2a1d3f00d"
LOST_NODE = [
    {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 60,
    }
    for condition in ("not-ready", "unreachable")
]
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
A100_TERMS = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
    {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A100-SXM4-40GB"]},
    {"key": "nvidia.com/gpu.sharing-strategy", "operator": "NotIn", "values": ["mps", "time-slicing"]},
]


def placement(name: str, kind: str, **changes: Any) -> Placement:
    """Where the platform puts attempt 2 of the workload `name` of team vision."""
    values: dict[str, Any] = {
        "namespace": "team-vision",
        "object_name": names.object_name(workload_name=name, short_id="a1d3f00d", attempt=2),
        "workload_id": WORKLOAD_ID,
        "short_id": "a1d3f00d",
        "attempt": 2,
        "team_slug": "vision",
        "labels": labels.workload_labels(workload_id=WORKLOAD_ID, attempt=2, team="vision", kind=kind),
        "resource_name": None,
        "node_terms": [],
        "tolerations": LOST_NODE,
        "service_account": "ml-portal-workload",
        "git_image": "alpine/git:v2.49.1",
        "storage_image": "kserve/storage-initializer:v0.20.0",
        "priority_class": None,
        "portal_url": "http://portal.ml-portal.svc:8000",
        "run_token_secret": None,
    }
    return Placement(**{**values, **changes})


RUN_BODIES: Mapping[str, dict[str, Any]] = {
    "cpu_run": {
        "name": "prepare-data",
        "image": "python:3.12",
        "command": ["python", "-c", "print('a b'); # $(HOME) `id`"],
        "cpu": "2",
        "memory": "4Gi",
        "time_limit_seconds": 3600,
    },
    "everything_8_gpus": {
        "name": "resnet50",
        "kind": "job",
        "image": "ghcr.io/vision/train:2.1@sha256:" + "0" * 64,
        "command": ["torchrun", "train.py"],
        "args": ["--epochs", "90"],
        "run_as_user": 1001,
        "env": [
            {"name": "NCCL_DEBUG", "value": "INFO"},
            {"name": "OUT", "value": "$(PORTAL_CHECKPOINT_DIR)/out"},
            {"name": "HF_TOKEN", "secret": "hf", "key": "token"},
        ],
        "image_pull_secrets": ["ghcr"],
        "flavor": "a100-40gb",
        "capacity": "spot",
        "gpus_per_replica": 8,
        "cpu": {"request": "32", "limit": "64"},
        "memory": "256Gi",
        "shm": "64Gi",
        "ephemeral_storage": {"request": "50Gi", "limit": "100Gi"},
        "volumes": [
            {"claim": "datasets", "path": "/data", "read_only": True},
            {"claim": "scratch", "path": "/scratch"},
            {"claim": "datasets", "path": "/data2", "read_only": True},
        ],
        "extra_resources": {"vpc.amazonaws.com/efa": 4},
        "config_maps": [{"name": "conf", "path": "/etc/conf"}],
        "checkpoint": {"path": "/checkpoints", "claim": "ckpt", "interval_seconds": 1800},
        "priority": "high",
        "time_limit_seconds": 7200,
        "max_retries": 3,
        "labels": {"project": "x", "example.com/owner": "ana"},
        "source": {"files": {"train.py": "print('é')\n", "util.py": ""}, "path": "/workspace"},
    },
    "gang_of_32_gpus": {
        "name": "llm",
        "image": "ghcr.io/vision/train:2.1",
        "command": ["torchrun", "--nproc-per-node=8", "train.py"],
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}],
        "flavor": "a100-40gb",
        "gpus_per_replica": 8,
        "replicas": 4,
        "cpu": "32",
        "memory": "256Gi",
        "shm": "64Gi",
        "checkpoint": {"path": "/checkpoints", "claim": "ckpt"},
        "time_limit_seconds": 86400,
        "source": {"files": {"train.py": "print('é')\n"}},
    },
    "root_run": {
        "name": "as-root",
        "image": "nvcr.io/nvidia/pytorch:25.10-py3",
        "run_as_user": 0,
        "flavor": "a100-40gb",
        "gpus_per_replica": 1,
        "memory": "32Gi",
        "volumes": [{"claim": "scratch", "path": "/scratch"}],
        "checkpoint": {"path": "/scratch/checkpoints"},
    },
    "git_run": {
        "name": "from-git",
        "image": "ghcr.io/vision/train:2.1",
        "command": ["python", "train.py"],
        "flavor": "t4-shared",
        "cpu": "2",
        "memory": "8Gi",
        "source": {
            "git": {
                "url": "https://git.example.com/vision/train.git",
                "ref": "v2.1",
                "subdir": "resnet",
                "secret": "git-read",
            }
        },
        "time_limit_seconds": 600,
    },
    "shared_gpu_run": {
        "name": "small",
        "image": "vision/small:1",
        "flavor": "t4-shared",
        "cpu": "500m",
        "memory": "2Gi",
        "time_limit_seconds": 600,
    },
}

_A100: dict[str, Any] = {
    "resource_name": "nvidia.com/gpu",
    "node_terms": A100_TERMS,
    "tolerations": [GPU_TAINT, *LOST_NODE],
}

RUN_PLACEMENTS: Mapping[str, Placement] = {
    "cpu_run": placement("prepare-data", "training-run"),
    "everything_8_gpus": placement(
        "resnet50",
        "training-run",
        **_A100,
        capacity_type="spot",
        priority_class="ml-portal-high",
        run_token_secret="resnet50-a1d3f00d-2-token",
        resume_from="/checkpoints/step-400",
        grace_seconds=120,
        mlflow_uri="https://mlflow.example.com",
        annotations={"mlportal.dev/owner": "ana"},
    ),
    "gang_of_32_gpus": placement("llm", "training-run", **_A100, run_token_secret="llm-a1d3f00d-1-token"),
    "root_run": placement("as-root", "training-run", **_A100),
    "git_run": placement(
        "from-git", "training-run", **{**_A100, "resource_name": "nvidia.com/gpu.shared", "node_terms": []}
    ),
    "shared_gpu_run": placement(
        "small", "training-run", **{**_A100, "resource_name": "nvidia.com/gpu.shared", "node_terms": []}
    ),
}

ENDPOINT_BODIES: Mapping[str, dict[str, Any]] = {
    "mig_endpoint": {
        "name": "digits",
        "runtime": "custom",
        "image": "registry.example.com:5000/vision/server:1.0",
        "command": ["python", "serve.py"],
        "env": [{"name": "MODEL", "value": "/models/digits"}],
        "model": {"claim": "models", "uri": None, "path": "/models"},
        "flavor": "a100-mig-1g.10gb",
        "gpus_per_replica": 1,
        "cpu": "4",
        "memory": "16Gi",
        "shm": "8Gi",
        "ports": {"http": 8080, "grpc": 8081, "metrics": 8082},
        "probes": {
            "readiness": {
                "path": "/v2/health/ready",
                "initial_delay_seconds": 60,
                "period_seconds": 10,
                "failure_threshold": 3,
            },
            "liveness": {"path": "/v2/health/live"},
            "load_budget_seconds": 900,
        },
        "min_replicas": 3,
        "max_replicas": 3,
        "labels": {"project": "x"},
        "source": {"files": {"serve.py": "print('serving')\n"}},
        "rollout": {"strategy": "surge", "max_downtime_seconds": 0},
        "request_timeout_seconds": 120,
    },
    "cpu_endpoint": {"name": "echo", "image": "echo:1", "run_as_user": 0, "rollout": {"strategy": "replace"}},
    **runtime_bodies(),
}

ENDPOINT_PLACEMENTS: Mapping[str, Placement] = {
    "mig_endpoint": placement("digits", "endpoint", **{**_A100, "resource_name": "nvidia.com/mig-1g.10gb"}),
    "cpu_endpoint": placement("echo", "endpoint"),
    **{
        name: placement(
            body["name"],
            "endpoint",
            priority_class="mlportal-inference-normal",
            pod_monitors=True,
            **{**_A100, "node_terms": [], "resource_name": resource_of(name)},
        )
        for name, body in runtime_bodies().items()
    },
}


def golden(folder: Path) -> dict[str, list[Any]]:
    """The golden files of the folder: name -> objects, the primary first."""
    files = sorted(folder.glob("*.yaml"))
    # Safe as any; written in C, which takes a ninth of the time. They are read while tests are collected.
    return {path.stem: list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)) for path in files}


def write_golden(folder: Path, built: Mapping[str, ManifestSet]) -> None:
    for path in folder.glob("*.yaml"):
        path.unlink()
    for name, manifests in built.items():
        # Round trip first: a golden file holds plain JSON values, each written out.
        text = yaml.safe_dump_all(
            manifests.all(), sort_keys=False, default_flow_style=False, allow_unicode=True
        )
        (folder / f"{name}.yaml").write_text(text)
