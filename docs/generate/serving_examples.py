"""Manifests that articles about serving on Kubernetes show, each with the request that asks the portal for the same."""

from __future__ import annotations

from docs.generate.manifest_rows import GPU, LATEST, Example, ManifestRow, flavor, limit, request, tolerates
from docs.generate.scaler_examples import EXAMPLES as SCALERS
from docs.generate.torchserve_example import ANNOTATIONS, POD, QUALITY, SERVER, TORCHSERVE, WAITS

INFERENCE = Example(
    title="Deployment with REST, gRPC and metrics",
    source="Kubernetes GPU Workloads: Scheduling Machine Learning Jobs on EKS, “Inference Deployment”",
    flavor=flavor("v100", {"node-type": ["gpu"]}),
    body={
        "team": "vision",
        "name": "resnet-inference",
        "runtime": "custom",
        "image": "registry.example.org/model-server:2026-05-09",
        "flavor": "v100",
        "gpus_per_replica": 1,
        "cpu": "4",
        "memory": "16Gi",
        "ports": {"http": 8080, "grpc": 8081, "metrics": 8082},
        "probes": {
            "readiness": {"path": "/v2/health/ready", "period_seconds": 10},
            "load_budget_seconds": 600,
        },
        "min_replicas": 2,
        "max_replicas": 2,
    },
    rows=[
        ManifestRow(
            "`namespace: ml-serving`", "`team`", ("metadata", "namespace"), "team-vision", "one a team"
        ),
        ManifestRow("`replicas: 2`", "`min_replicas: 2`", ("spec", "replicas"), 2),
        ManifestRow(
            "`selector` by `app`",
            "by itself",
            ("spec", "selector", "matchLabels"),
            {"mlportal.dev/workload-id": "0192f0c1-7d1e-7a3b-9c44-5be2a1d3f00d"},
            "an id is nobody else's; `labels` of the request stand beside it",
        ),
        ManifestRow(
            "image with the tag `latest`",
            "`image`",
            (*SERVER, "image"),
            "registry.example.org/model-server:2026-05-09",
            LATEST,
        ),
        ManifestRow(
            "port 8080, REST",
            "`ports.http: 8080`",
            (*SERVER, "ports", {"name": "http"}, "containerPort"),
            8080,
            "named, as probes, Service and network policy go by names",
        ),
        ManifestRow(
            "port 8081, gRPC",
            "`ports.grpc: 8081`",
            (*SERVER, "ports", {"name": "grpc"}, "containerPort"),
            8081,
            "with `runtime: torchserve` 8081 is refused: there it is the management API, and gRPC is 7070",
        ),
        ManifestRow(
            "port 8082, metrics",
            "`ports.metrics: 8082`",
            (*SERVER, "ports", {"name": "metrics"}, "containerPort"),
            8082,
        ),
        ManifestRow(
            "nobody is told to scrape it",
            "`ports.metrics: 8082`",
            (*ANNOTATIONS, "prometheus.io/port"),
            "8082",
            "a port in the list is not scraped by that; a PodMonitor is made, too, where the cluster has them",
        ),
        ManifestRow("1 GPU", "`gpus_per_replica: 1`", limit(POD, GPU), "1"),
        ManifestRow("4 cores requested, no limit", '`cpu: "4"`', limit(POD, "cpu"), "4", QUALITY),
        ManifestRow("16Gi requested, no limit", '`memory: "16Gi"`', limit(POD, "memory"), "16Gi", "the same"),
        ManifestRow(
            "readiness on `/v2/health/ready`",
            "`probes.readiness.path`",
            (*SERVER, "readinessProbe", "httpGet"),
            {"path": "/v2/health/ready", "port": "http"},
        ),
        ManifestRow(
            "every 10 s",
            "`probes.readiness.period_seconds`",
            (*SERVER, "readinessProbe", "periodSeconds"),
            10,
        ),
        ManifestRow(
            "`initialDelaySeconds: 60`",
            "`probes.load_budget_seconds: 600`",
            (*SERVER, "startupProbe", "failureThreshold"),
            120,
            WAITS,
        ),
        ManifestRow(
            "default rollout, a quarter more pods at a time",
            "`rollout.strategy: surge`",
            ("spec", "strategy", "rollingUpdate"),
            {"maxSurge": 1, "maxUnavailable": 0},
            "where all GPUs are taken it never ends; here the pod more is claimed first, and `replace` needs none",
        ),
        ManifestRow(
            "no Service",
            "by itself",
            ("spec", "ports", {"name": "http"}, "port"),
            8080,
            "behind the gateway, which asks for a token",
            of="Service",
        ),
        tolerates(POD),
    ],
)

READINESS = Example(
    title="Readiness of a model server",
    source="Kubernetes for Machine Learning: A Practical Guide, “Serving Models at Scale”",
    flavor=flavor("t4", {"gpu-type": ["nvidia-t4"]}),
    body={
        "team": "vision",
        "name": "model-server",
        "image": "registry.example.org/model-server:1.4",
        "flavor": "t4",
        "gpus_per_replica": 1,
        "cpu": "2",
        "memory": "8Gi",
        "probes": {
            "readiness": {
                "path": "/health/ready",
                "initial_delay_seconds": 60,
                "period_seconds": 10,
                "failure_threshold": 3,
            }
        },
    },
    rows=[
        ManifestRow(
            "`/health/ready` on port 8080",
            "`probes.readiness.path`",
            (*SERVER, "readinessProbe", "httpGet", "path"),
            "/health/ready",
            "a path without a slash is refused, naming the field",
        ),
        ManifestRow(
            "`initialDelaySeconds: 60`",
            "`probes.readiness.initial_delay_seconds`",
            (*SERVER, "readinessProbe", "initialDelaySeconds"),
            60,
            "possible, and seldom of use beside the startup probe",
        ),
        ManifestRow(
            "every 10 s",
            "`probes.readiness.period_seconds`",
            (*SERVER, "readinessProbe", "periodSeconds"),
            10,
        ),
        ManifestRow(
            "not ready after 3 failures",
            "`probes.readiness.failure_threshold`",
            (*SERVER, "readinessProbe", "failureThreshold"),
            3,
        ),
        ManifestRow(
            "a PodDisruptionBudget, in words",
            "by itself",
            ("spec", "maxUnavailable"),
            1,
            "a drain takes one replica at a time; `minAvailable: 1` would keep the node of a single one for ever",
            of="PodDisruptionBudget",
        ),
        ManifestRow(
            "“preemption policies”, in words",
            "`priority`",
            (*POD, "priorityClassName"),
            "mlportal-inference-normal",
            "above all of training; the portal preempts, never the scheduler",
        ),
    ],
)

TRITON = Example(
    title="Triton on a tainted node",
    source="GPU and ML Workloads on Kubernetes, “Taints and Tolerations for GPU Nodes”",
    flavor=flavor("a100-or-h100", {"gpu-type": ["nvidia-a100", "nvidia-h100"]}),
    body={
        "team": "vision",
        "name": "inference",
        "runtime": "triton",
        "image": "nvcr.io/nvidia/tritonserver:24.12-py3",
        "model": {"uri": "s3://models/vision", "secret": "s3-read", "size_limit": "20Gi"},
        "runtime_options": {"models": ["resnet50"]},
        "flavor": "a100-or-h100",
        "gpus_per_replica": 1,
        "cpu": "4",
        "memory": "16Gi",
    },
    rows=[
        ManifestRow(
            "image of Triton", "`image`", (*SERVER, "image"), "nvcr.io/nvidia/tritonserver:24.12-py3"
        ),
        ManifestRow(
            "no command: the image alone serves nothing",
            "`runtime: triton`",
            (*SERVER, "command"),
            ["tritonserver"],
            "with the repository, its ports and what is to be loaded as arguments",
        ),
        ManifestRow(
            "no model",
            "`model.uri`",
            (*POD, "initContainers", {"name": "model-fetch"}, "args"),
            ["s3://models/vision", "/models"],
            "fetched before the server starts, with the keys of a secret; or a claim, or in the image",
        ),
        ManifestRow(
            "no ports",
            "`runtime: triton`",
            (*SERVER, "ports", {"name": "http"}, "containerPort"),
            8000,
            "8001 gRPC, 8002 metrics",
        ),
        ManifestRow(
            "no probes",
            "`runtime: triton`",
            (*SERVER, "readinessProbe", "httpGet", "path"),
            "/v2/health/ready",
        ),
        ManifestRow("1 GPU as a limit alone", "`gpus_per_replica: 1`", request(POD, GPU), "1"),
        tolerates(POD),
    ],
)

EXAMPLES: tuple[Example, ...] = (INFERENCE, TORCHSERVE, READINESS, TRITON, *SCALERS)
