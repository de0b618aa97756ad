"""Manifests that articles about training on Kubernetes show, each with the request that asks the portal for the same."""

from __future__ import annotations

from docs.generate.manifest_rows import (
    FIRST,
    GPU,
    GPU_TAINT,
    JOB_POD,
    LATEST,
    MASTER,
    MASTER_POD,
    RETRIES,
    WORKER,
    WORKER_POD,
    Example,
    ManifestRow,
    env,
    flavor,
    limit,
    mounts,
    request,
    shm,
    term,
    tolerates,
)

NCCL_DEBUG = {"name": "NCCL_DEBUG", "value": "INFO"}

SINGLE_NODE = Example(
    title="Job on one node, with shared memory and claims",
    source="Kubernetes GPU Workloads: Scheduling Machine Learning Jobs on EKS, “Single-Node Training Job”",
    flavor=flavor("v100", {"node-type": ["gpu"]}),
    body={
        "team": "vision",
        "name": "resnet-training-2026-05-09",
        "kind": "job",
        "image": "registry.example.org/ml-training:2026-05-09",
        "command": ["python", "train.py", "--epochs=100", "--batch-size=256"],
        "env": [NCCL_DEBUG],
        "flavor": "v100",
        "gpus_per_replica": 4,
        "cpu": "28",
        "memory": {"request": "60Gi", "limit": "68Gi"},
        "shm": "8Gi",
        "volumes": [
            {"claim": "training-dataset", "path": "/data"},
            {"claim": "model-output", "path": "/output"},
        ],
        "time_limit_seconds": 86400,
        "max_retries": 2,
    },
    rows=[
        ManifestRow(
            "`namespace: ml-training`", "`team`", ("metadata", "namespace"), "team-vision", "one a team"
        ),
        ManifestRow("`backoffLimit: 2`", "`max_retries: 2`", ("spec", "backoffLimit"), 0, RETRIES),
        ManifestRow(
            "`restartPolicy: OnFailure`", "by itself", (*JOB_POD, "restartPolicy"), "Never", "the same"
        ),
        ManifestRow(
            "image with the tag `latest`",
            "`image`",
            (*JOB_POD, *FIRST, "image"),
            "registry.example.org/ml-training:2026-05-09",
            LATEST,
        ),
        ManifestRow(
            "command of four arguments",
            "`command`",
            (*JOB_POD, *FIRST, "command"),
            ["python", "train.py", "--epochs=100", "--batch-size=256"],
        ),
        ManifestRow("4 GPUs", "`gpus_per_replica: 4`", limit(JOB_POD, GPU), "4"),
        ManifestRow("60Gi requested", "`memory.request`", request(JOB_POD, "memory"), "60Gi"),
        ManifestRow(
            "no memory limit", "`memory.limit`", limit(JOB_POD, "memory"), "68Gi", "there always is one"
        ),
        ManifestRow("28 cores requested", '`cpu: "28"`', request(JOB_POD, "cpu"), "28"),
        ManifestRow("`NCCL_DEBUG=INFO`", "`env[0]`", env(JOB_POD, "NCCL_DEBUG"), "INFO"),
        *mounts(JOB_POD, ("training-dataset", "/data"), ("model-output", "/output")),
        *shm(JOB_POD, "8Gi"),
        tolerates(JOB_POD),
    ],
)

TWO_GPUS = Example(
    title="Two GPUs of one of two models",
    source="GPU and ML Workloads on Kubernetes, “Requesting GPUs in Pod Specs” and “Node Affinity for GPU Type Selection”",
    flavor=flavor("a100-or-h100", {"gpu-type": ["nvidia-a100", "nvidia-h100"]}),
    body={
        "team": "vision",
        "name": "ml-training",
        "kind": "job",
        "image": "pytorch/pytorch:2.5.1-cuda12.6-cudnn9-runtime",
        "command": ["python", "train.py"],
        "flavor": "a100-or-h100",
        "gpus_per_replica": 2,
        "time_limit_seconds": 86400,
    },
    rows=[
        ManifestRow(
            "a bare `Pod`",
            "`kind: job`",
            ("kind",),
            "Job",
            "a Job tells how it ended, and a pod is gone with its node",
        ),
        ManifestRow("`restartPolicy: Never`", "by itself", (*JOB_POD, "restartPolicy"), "Never"),
        ManifestRow("2 GPUs as a limit", "`gpus_per_replica: 2`", limit(JOB_POD, GPU), "2"),
        ManifestRow("the request follows from the limit", "by itself", request(JOB_POD, GPU), "2"),
        ManifestRow(
            "affinity to two values of `gpu-type`",
            "`flavor`",
            term(JOB_POD, "gpu-type"),
            ["nvidia-a100", "nvidia-h100"],
        ),
        tolerates(JOB_POD),
    ],
)

PYTORCH_4X4 = Example(
    title="PyTorchJob of a master and three workers",
    source="Kubernetes GPU Workloads: Scheduling Machine Learning Jobs on EKS, “Distributed Training with PyTorchJob”",
    flavor=flavor("v100", {"node-type": ["gpu"]}),
    body={
        "team": "vision",
        "name": "resnet-distributed",
        "kind": "pytorchjob",
        "image": "registry.example.org/ml-training:2026-05-09",
        "command": ["torchrun", "--nproc_per_node=4", "train.py"],
        "flavor": "v100",
        "gpus_per_replica": 4,
        "replicas": 4,
        "time_limit_seconds": 86400,
        "max_retries": 2,
    },
    rows=[
        ManifestRow("`kind: PyTorchJob`", "`kind: pytorchjob`", ("kind",), "PyTorchJob"),
        ManifestRow("1 master", "`replicas: 4`, master included", (*MASTER, "replicas"), 1),
        ManifestRow("3 workers", "the same", (*WORKER, "replicas"), 3),
        ManifestRow(
            "`restartPolicy: OnFailure`", "`max_retries: 2`", (*MASTER, "restartPolicy"), "Never", RETRIES
        ),
        ManifestRow(
            "torchrun with 4 processes",
            "`command`",
            (*WORKER_POD, *FIRST, "command"),
            ["torchrun", "--nproc_per_node=4", "train.py"],
            "`nproc_per_node: 4` in place of the flag would do as well",
        ),
        ManifestRow("container `pytorch`", "by itself", (*MASTER_POD, *FIRST, "name"), "pytorch"),
        ManifestRow("4 GPUs for the master", "`gpus_per_replica: 4`", limit(MASTER_POD, GPU), "4"),
        ManifestRow("4 GPUs for each worker", "the same", limit(WORKER_POD, GPU), "4"),
        tolerates(MASTER_POD),
        tolerates(WORKER_POD),
    ],
)

_LLM = [
    "python3",
    "-m",
    "torch.distributed.run",
    "--nproc_per_node=8",
    "--nnodes=4",
    "--node_rank=$(RANK)",
    "--master_addr=$(MASTER_ADDR)",
    "--master_port=23456",
    "train_llm.py",
    "--model=llama-7b",
    "--dataset=/data/training_set",
    "--output=/models/finetuned",
]

PYTORCH_4X8 = Example(
    title="PyTorchJob of 4 × 8 GPUs with NCCL",  # noqa: RUF001
    source="AI and GPU Workloads on Kubernetes: Device Plugin and Training Jobs, “PyTorchJob for Multi-GPU Multi-Node Training”",
    flavor=flavor("a100-80gb", {"accelerator": ["nvidia-a100-80gb"]}),
    body={
        "team": "vision",
        "name": "llm-finetuning-job",
        "kind": "pytorchjob",
        "image": "registry.example.org/training:llm-v2.1",
        "command": _LLM,
        "env": [NCCL_DEBUG, {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}],
        "flavor": "a100-80gb",
        "gpus_per_replica": 8,
        "replicas": 4,
        "cpu": "32",
        "memory": "120Gi",
        "shm": "64Gi",
        "volumes": [
            {"claim": "training-dataset-pvc", "path": "/data"},
            {"claim": "model-output-pvc", "path": "/models"},
        ],
        "time_limit_seconds": 259200,
        "max_retries": 2,
    },
    rows=[
        ManifestRow("1 master and 3 workers", "`replicas: 4`", (*WORKER, "replicas"), 3),
        ManifestRow("8 GPUs for the master", "`gpus_per_replica: 8`", limit(MASTER_POD, GPU), "8"),
        ManifestRow("8 GPUs for each worker", "the same", limit(WORKER_POD, GPU), "8"),
        ManifestRow(
            "rank and address from the operator's environment",
            "`command`",
            (*WORKER_POD, *FIRST, "command"),
            _LLM,
            "the kubelet fills in `$(RANK)`; the portal leaves it as it is",
        ),
        ManifestRow("`NCCL_DEBUG=INFO`", "`env[0]`", env(MASTER_POD, "NCCL_DEBUG"), "INFO"),
        ManifestRow("`NCCL_SOCKET_IFNAME=eth0`", "`env[1]`", env(MASTER_POD, "NCCL_SOCKET_IFNAME"), "eth0"),
        ManifestRow("120Gi as request and limit", '`memory: "120Gi"`', limit(MASTER_POD, "memory"), "120Gi"),
        ManifestRow("32 cores as request and limit", '`cpu: "32"`', limit(MASTER_POD, "cpu"), "32"),
        *mounts(MASTER_POD, ("training-dataset-pvc", "/data"), ("model-output-pvc", "/models")),
        *shm(MASTER_POD, "64Gi"),
        *shm(WORKER_POD, "64Gi"),
        ManifestRow(
            "`nodeSelector` on `accelerator`",
            "`flavor`",
            term(MASTER_POD, "accelerator"),
            ["nvidia-a100-80gb"],
            "as required affinity, which takes several values",
        ),
        tolerates(MASTER_POD),
    ],
)

SPOT = Example(
    title="Spot, with tolerations and checkpoints",
    source="AI and GPU Workloads on Kubernetes, “Karpenter for Spot GPU Node Provisioning”; Kubernetes for Machine Learning: A Practical Guide, “Node Affinity”, “Managing Ephemeral Storage”, “Pod Disruption and Checkpointing”",
    flavor=flavor(
        "a100-40gb",
        {"workload": ["gpu-training"]},
        **{
            "on-demand": {"node_selector": {"karpenter.sh/capacity-type": ["on-demand"]}},
            "spot": {"node_selector": {"karpenter.sh/capacity-type": ["spot"]}},
        },
    ),
    body={
        "team": "vision",
        "name": "spot-training",
        "kind": "job",
        "image": "registry.example.org/ml-training:2026-05-09",
        "command": ["python", "train.py"],
        "flavor": "a100-40gb",
        "capacity": "spot",
        "gpus_per_replica": 1,
        "cpu": {"request": "4", "limit": "8"},
        "memory": {"request": "16Gi", "limit": "32Gi"},
        "ephemeral_storage": {"request": "50Gi", "limit": "100Gi"},
        "checkpoint": {"path": "/checkpoints", "claim": "checkpoints", "interval_seconds": 1800},
        "time_limit_seconds": 172800,
        "max_retries": 2,
    },
    rows=[
        ManifestRow(
            "nodes of capacity type `spot`",
            "`capacity: spot`",
            term(JOB_POD, "karpenter.sh/capacity-type"),
            ["spot"],
        ),
        ManifestRow(
            "affinity to `workload: gpu-training`", "`flavor`", term(JOB_POD, "workload"), ["gpu-training"]
        ),
        ManifestRow(
            "toleration of the NodePool's taint `nvidia.com/gpu=true`",
            "`flavor`",
            (*JOB_POD, "tolerations", {"key": GPU}),
            GPU_TAINT,
            "`Exists` takes any value of the taint",
        ),
        ManifestRow(
            "a lost node",
            "by itself",
            (*JOB_POD, "tolerations", {"key": "node.kubernetes.io/unreachable"}, "tolerationSeconds"),
            60,
            "given up after a minute instead of five",
        ),
        ManifestRow("1 GPU", "`gpus_per_replica: 1`", limit(JOB_POD, GPU), "1"),
        ManifestRow("16Gi requested", "`memory.request`", request(JOB_POD, "memory"), "16Gi"),
        ManifestRow("32Gi at most", "`memory.limit`", limit(JOB_POD, "memory"), "32Gi"),
        ManifestRow("4 cores requested", "`cpu.request`", request(JOB_POD, "cpu"), "4"),
        ManifestRow("8 cores at most", "`cpu.limit`", limit(JOB_POD, "cpu"), "8"),
        ManifestRow(
            "50Gi of scratch requested",
            "`ephemeral_storage.request`",
            request(JOB_POD, "ephemeral-storage"),
            "50Gi",
        ),
        ManifestRow(
            "100Gi of scratch at most",
            "`ephemeral_storage.limit`",
            limit(JOB_POD, "ephemeral-storage"),
            "100Gi",
        ),
        ManifestRow(
            "checkpoints that outlive the pod",
            "`checkpoint`",
            env(JOB_POD, "PORTAL_CHECKPOINT_DIR"),
            "/checkpoints",
            "the run reports each one, and the next attempt is given the newest",
        ),
        ManifestRow(
            "time to write a last one",
            "by itself",
            (*JOB_POD, "terminationGracePeriodSeconds"),
            60,
            "the platform's setting `grace_seconds`",
        ),
    ],
)

GANG = Example(
    title="A gang of eight",
    source="Kubernetes GPU Scheduling for ML Workloads in 2026, “Gang Scheduling for Distributed Training”",
    gang_scheduler="volcano",
    flavor=flavor("tesla-a100", {"accelerator": ["nvidia-tesla-a100"]}),
    body={
        "team": "vision",
        "name": "distributed-training",
        "kind": "job",
        "image": "pytorch/pytorch:2.2.0-cuda12.1-cudnn8-runtime",
        "command": ["torchrun", "train.py"],
        "flavor": "tesla-a100",
        "gpus_per_replica": 1,
        "replicas": 8,
        "time_limit_seconds": 86400,
    },
    rows=[
        ManifestRow(
            "`minAvailable: 8` of a Volcano Job",
            "`replicas: 8`",
            ("spec", "parallelism"),
            8,
            "admission claims all eight or none; the PodGroup, made where the cluster has Volcano, says `minMember: 8`",
        ),
        ManifestRow(
            "`schedulerName: volcano`",
            "the platform's setting `gang_scheduler`",
            (*JOB_POD, "schedulerName"),
            "volcano",
        ),
        ManifestRow("8 workers", "`replicas: 8`", ("spec", "completions"), 8),
        ManifestRow("workers that know their number", "by itself", ("spec", "completionMode"), "Indexed"),
        ManifestRow("1 GPU each", "`gpus_per_replica: 1`", limit(JOB_POD, GPU), "1"),
        ManifestRow(
            "`nodeSelector` on `accelerator`",
            "`flavor`",
            term(JOB_POD, "accelerator"),
            ["nvidia-tesla-a100"],
        ),
    ],
)

EXAMPLES: tuple[Example, ...] = (SINGLE_NODE, TWO_GPUS, PYTORCH_4X4, PYTORCH_4X8, SPOT, GANG)
