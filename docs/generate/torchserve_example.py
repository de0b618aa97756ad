"""TorchServe as an article deploys it, with the request that asks the portal for the same."""

from __future__ import annotations

from docs.generate.manifest_rows import (
    FIRST,
    GPU,
    JOB_POD,
    Example,
    ManifestRow,
    Step,
    flavor,
    limit,
    request,
    tolerates,
)

POD: tuple[Step, ...] = JOB_POD
SERVER: tuple[Step, ...] = (*POD, *FIRST)
ANNOTATIONS: tuple[Step, ...] = ("spec", "template", "metadata", "annotations")
CONFIG: tuple[Step, ...] = ("data", "config.properties")
WAITS = (
    "a fixed wait is too long for one model and too short for another: the startup probe asks every 5 s, for as long as the "
    "budget says, and the others begin after it"
)
QUALITY = "request and limit are one, so that the pod is `Guaranteed` what it has and batch work beside it takes none of it"

TORCHSERVE = Example(
    title="TorchServe with its configuration",
    source="AI and GPU Workloads on Kubernetes: Device Plugin and Training Jobs, “Deployment of Models for Inference with TorchServe”",
    flavor=flavor("a100", {"accelerator": ["nvidia-a100"]}),
    body={
        "team": "vision",
        "name": "model-inference",
        "runtime": "torchserve",
        "image": "pytorch/torchserve:0.11.0-gpu",
        "model": {"claim": "model-store-pvc"},
        "runtime_options": {
            "models": ["text-classifier=bert-classifier.mar"],
            "batch_size": 32,
            "max_batch_delay_ms": 100,
        },
        "flavor": "a100",
        "gpus_per_replica": 1,
        "cpu": "4",
        "memory": "16Gi",
        "probes": {"liveness": {"period_seconds": 30}},
        "min_replicas": 3,
        "max_replicas": 3,
    },
    rows=[
        ManifestRow("`replicas: 3`", "`min_replicas: 3`", ("spec", "replicas"), 3),
        ManifestRow(
            "`prometheus.io/scrape`, port 8082",
            "`runtime: torchserve`",
            (*ANNOTATIONS, "prometheus.io/port"),
            "8082",
        ),
        ManifestRow(
            "`torchserve --start`",
            "`runtime: torchserve`",
            (*SERVER, "args"),
            ["--start", "--foreground", "--ncs"],
            "without `--foreground` the command ends at once, and only a shell that the image adds keeps the container",
        ),
        ManifestRow(
            "`--ts-config=/config/config.properties`",
            "by itself",
            (*SERVER, "env", {"name": "TS_CONFIG_FILE"}, "value"),
            "/etc/torchserve/config.properties",
        ),
        ManifestRow(
            "`--model-store=/models`",
            "`model.path`",
            (*CONFIG, "model_store"),
            "/models",
            of="ConfigMap",
        ),
        ManifestRow(
            "`--models=text-classifier=bert-classifier.mar`",
            "`runtime_options.models`",
            (*CONFIG, "load_models"),
            "text-classifier=bert-classifier.mar",
            "an archive that is not there is told before the server starts, which alone would go on without it",
            of="ConfigMap",
        ),
        ManifestRow(
            "`batch_size=32`, `max_batch_delay=100 # ms…`",
            "`runtime_options.batch_size`, `max_batch_delay_ms`",
            (*CONFIG, "models"),
            '{"text-classifier":{"1.0":{"defaultVersion":true,"marName":"bert-classifier.mar","batchSize":32,'
            '"maxBatchDelay":100}}}',
            "TorchServe has no such properties and ignores them: it batches by model and version. What follows a value in a "
            "line belongs to the value",
            of="ConfigMap",
        ),
        ManifestRow(
            "inference on 8080",
            "`ports.http`, left out",
            (*CONFIG, "inference_address"),
            "http://0.0.0.0:8080",
            of="ConfigMap",
        ),
        ManifestRow(
            "management on 8081, open to all",
            "refused in `ports`",
            (*CONFIG, "management_address"),
            "http://127.0.0.1:8081",
            "whoever reaches it loads a model from any address, which is code; it stays inside the container",
            of="ConfigMap",
        ),
        ManifestRow(
            "metrics on 8082",
            "`ports.metrics`, left out",
            (*CONFIG, "metrics_address"),
            "http://0.0.0.0:8082",
            of="ConfigMap",
        ),
        ManifestRow(
            "no `metrics_mode`",
            "by itself",
            (*CONFIG, "metrics_mode"),
            "prometheus",
            "by default it writes its metrics into a log, and 8082 has none of a model",
            of="ConfigMap",
        ),
        ManifestRow(
            "no word on tokens",
            "by itself",
            (*CONFIG, "disable_token_authorization"),
            "true",
            "from 0.11.1 on every call needs a token from a file in the pod; here the gateway asks for the portal's",
            of="ConfigMap",
        ),
        ManifestRow(
            "`install_py_dep_per_model=true`",
            "left out",
            (*SERVER, "image"),
            "pytorch/torchserve:0.11.0-gpu",
            "each start would fetch packages from the internet: put them into the image",
        ),
        ManifestRow(
            "claim `model-store-pvc`",
            "`model.claim`",
            (*POD, "volumes", {"name": "claim-0"}, "persistentVolumeClaim", "claimName"),
            "model-store-pvc",
        ),
        ManifestRow(
            "at `/models`",
            "`model.path`, left out",
            (*SERVER, "volumeMounts", {"name": "claim-0"}, "readOnly"),
            True,
            "only read",
        ),
        ManifestRow("1 GPU", "`gpus_per_replica: 1`", limit(POD, GPU), "1"),
        ManifestRow(
            "8Gi requested, 16Gi at most", '`memory: "16Gi"`', request(POD, "memory"), "16Gi", QUALITY
        ),
        ManifestRow("2 cores requested, 4 at most", '`cpu: "4"`', request(POD, "cpu"), "4", "the same"),
        ManifestRow(
            "readiness on `/ping` after 60 s",
            "`runtime: torchserve`",
            (*SERVER, "startupProbe", "httpGet", "path"),
            "/ping",
            WAITS,
        ),
        ManifestRow(
            "liveness on `/ping` after 120 s",
            "`runtime: torchserve`",
            (*SERVER, "livenessProbe", "httpGet", "path"),
            "/ping",
            "a model that loads for longer would be killed again and again",
        ),
        ManifestRow(
            "every 30 s", "`probes.liveness.period_seconds`", (*SERVER, "livenessProbe", "periodSeconds"), 30
        ),
        tolerates(POD),
    ],
)
