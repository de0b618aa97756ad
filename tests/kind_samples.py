"""One request of every kind of run on every sort of GPU, and where each is put: the matrix of golden manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster import kinds
from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from tests.manifest_samples import A100_TERMS, GPU_TAINT, LOST_NODE, placement
from workloads.placement import Placement
from workloads.podspec.pod_template import ManifestSet

SPOT_TERM, PRODUCT_TERM, WHOLE_TERM = A100_TERMS
NCCL = [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}]


@dataclass(frozen=True)
class Sample:
    body: Mapping[str, Any]
    placement: Placement
    object_kind: str | None = None

    def built(self) -> ManifestSet:
        return build_training_run(TrainingRunSpec.from_json(self.body), self.placement, self.object_kind)


KINDS: Mapping[str, dict[str, Any]] = {
    "job": {"kind": "job", "command": ["torchrun", "train.py"], "nproc_per_node": 1},
    "pytorchjob": {"kind": "pytorchjob", "command": ["torchrun", "train.py"]},
    "pytorchjob_elastic": {"kind": "pytorchjob", "command": ["torchrun", "train.py"]},
    "tfjob": {
        "kind": "tfjob",
        "command": ["python", "train.py"],
        "roles": [
            {"name": "Chief"},
            {"name": "PS", "replicas": 2, "cpu": "4", "memory": "16Gi"},
            {"name": "Evaluator", "cpu": "2"},
        ],
    },
    "mpijob": {
        "kind": "mpijob",
        "command": ["mpirun", "python", "train.py"],
        "roles": [{"name": "Launcher", "cpu": "2", "memory": "4Gi"}],
    },
    "mpijob_v2": {"kind": "mpijob", "command": ["mpirun", "python", "train.py"]},
    "trainjob": {
        "kind": "trainjob",
        "command": ["torchrun", "train.py"],
        "runtime_ref": {"name": "torch-distributed"},
    },
}
SORTS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "whole": (
        {"flavor": "a100-40gb", "gpus_per_replica": 8, "replicas": 4, "env": NCCL, "shm": "64Gi"},
        {"resource_name": "nvidia.com/gpu", "node_terms": [PRODUCT_TERM, WHOLE_TERM]},
    ),
    "mig": (
        {"flavor": "a100-mig-1g.10gb", "gpus_per_replica": 1, "replicas": 2, "shm": "4Gi"},
        {"resource_name": "nvidia.com/mig-1g.10gb", "node_terms": [WHOLE_TERM]},
    ),
    "shared": (
        {"flavor": "t4-shared", "gpus_per_replica": 1},
        {"resource_name": "nvidia.com/gpu.shared"},
    ),
    "spot": (
        {
            "flavor": "a100-40gb",
            "gpus_per_replica": 8,
            "replicas": 2,
            "capacity": "spot",
            "checkpoint": {"path": "/checkpoints", "claim": "ckpt", "interval_seconds": 600},
        },
        {
            "resource_name": "nvidia.com/gpu",
            "node_terms": A100_TERMS,
            "resume_from": "/checkpoints/step-400",
            "capacity_type": "spot",
        },
    ),
}


def _sample(kind: str, sort: str) -> Sample:
    body, where = SORTS[sort]
    name = f"{kind.replace('_', '-')}-{sort}"
    request = {
        "name": name,
        "image": "ghcr.io/vision/train:2.1",
        "cpu": "16",
        "memory": "128Gi",
        "volumes": [{"claim": "datasets", "path": "/data", "read_only": True}],
        "time_limit_seconds": 7200,
        **KINDS[kind],
        **body,
    }
    if kind == "pytorchjob_elastic":
        most = request.get("replicas", 1)
        request["elastic"] = {"min_replicas": max(1, most // 2), "max_replicas": most}
    if kind == "tfjob":
        chief, *others = request["roles"]
        request["roles"] = [{**chief, "gpus_per_replica": request["gpus_per_replica"]}, *others]
    put = placement(
        name,
        "training-run",
        tolerations=[GPU_TAINT, *LOST_NODE],
        run_token_secret=f"{name}-token",
        priority_class="ml-portal-normal",
        **where,
    )
    return Sample(request, put, kinds.MPI_JOB_V2.address if kind == "mpijob_v2" else None)


SAMPLES: Mapping[str, Sample] = {f"{kind}_{sort}": _sample(kind, sort) for kind in KINDS for sort in SORTS}
