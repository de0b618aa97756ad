"""What articles scale their model servers with, and the requests that ask the portal for the same."""

from __future__ import annotations

from docs.generate.manifest_rows import Example, ManifestRow, Step, flavor
from docs.generate.torchserve_example import ANNOTATIONS, TORCHSERVE

SCALER = "ScaledObject"
PROMETHEUS_URL = "http://prometheus.monitoring.svc:9090"
"""The platform's, for the page."""
BEHAVIOR: tuple[Step, ...] = ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")
TRIGGER: tuple[Step, ...] = ("spec", "triggers", 0)
ASKED: tuple[Step, ...] = (*TRIGGER, "metadata")
NO_NAME = (
    "KEDA has removed `metricName` and takes no notice of it: it names the metric itself, and the endpoint's page shows "
    "that name"
)
FIXED_SERVER = "one for the platform, so that no request names it and a move changes no endpoint's spec"


def _rate(counter: str) -> str:
    """The rate of a counter of TorchServe's pods."""
    pods = 'namespace="team-vision",pod=~"model-inference-a1d3f00d-0-[a-z0-9]+-[a-z0-9]+"'
    series = f"{counter}{{{pods}}}"
    return f"sum(rate({series}[1m]) or irate({series}[5m]) and {series})"


def _common(minimum: int, maximum: int, name: str) -> list[ManifestRow]:
    """What both articles ask for in the same words."""
    return [
        ManifestRow(
            f"`scaleTargetRef.name: {name}`",
            "by itself",
            ("spec", "scaleTargetRef", "kind"),
            "Deployment",
            "of the same name; the Deployment's manifest leaves `replicas` to it, so that no change of the endpoint sets them back",
            of=SCALER,
        ),
        ManifestRow(
            f"`minReplicaCount: {minimum}`",
            f"`min_replicas: {minimum}`",
            ("spec", "minReplicaCount"),
            minimum,
            of=SCALER,
        ),
        ManifestRow(
            f"`maxReplicaCount: {maximum}`",
            f"`max_replicas: {maximum}`",
            ("spec", "maxReplicaCount"),
            maximum,
            "the quota is asked for all of them before; the article's pods would stay Pending",
            of=SCALER,
        ),
        ManifestRow(
            "`serverAddress`",
            "setting `scaler_prometheus_url`",
            (*ASKED, "serverAddress"),
            PROMETHEUS_URL,
            FIXED_SERVER,
            of=SCALER,
        ),
    ]


UTILIZATION = Example(
    title="ScaledObject by GPU utilisation",
    source="Kubernetes GPU Workloads: Scheduling Machine Learning Jobs on EKS, “Autoscaling Inference on GPU Utilization”",
    flavor=flavor("v100", {"node-type": ["gpu"]}),
    shows=SCALER,
    body={
        "team": "vision",
        "name": "resnet-inference",
        "image": "registry.example.org/model-server:2026-05-09",
        "flavor": "v100",
        "gpus_per_replica": 1,
        "cpu": "4",
        "memory": "16Gi",
        "ports": {"http": 8080, "grpc": 8081, "metrics": 8082},
        "probes": {"readiness": {"path": "/v2/health/ready"}},
        "min_replicas": 1,
        "max_replicas": 10,
        "scaling": {"trigger": "gpu-utilization", "threshold": 70, "fallback_replicas": 2},
    },
    rows=[
        *_common(1, 10, "resnet-inference"),
        ManifestRow(
            "`avg(DCGM_FI_DEV_GPU_UTIL{app=…})`",
            "`scaling.trigger: gpu-utilization`",
            (*ASKED, "query"),
            'avg(DCGM_FI_DEV_GPU_UTIL{exported_namespace="team-vision",exported_pod=~"resnet-inference-a1d3f00d-0-[a-z0-9]+-[a-z0-9]+"})'
            " or 0 * avg(DCGM_FI_DEV_GPU_UTIL)",
            "DCGM's series have no label `app`: the query finds nothing. They name the pod, in `exported_pod`, or in `pod` with the "
            "setting `dcgm_labels: plain`. MIG slices have another metric, "
            "which the portal takes by the flavor",
            of=SCALER,
        ),
        ManifestRow(
            "no `metricType`: `AverageValue`",
            "by itself",
            (*TRIGGER, "metricType"),
            "Value",
            "`AverageValue` asks for the value divided by the threshold, whatever runs: an average of percent is at most 100, and "
            "100 / 70 is never more than 2 replicas. `Value` multiplies what runs",
            of=SCALER,
        ),
        ManifestRow('`threshold: "70"`', "`scaling.threshold: 70`", (*ASKED, "threshold"), "70", of=SCALER),
        ManifestRow(
            "`metricName: gpu_utilization`",
            "left out",
            (*TRIGGER, "type"),
            "prometheus",
            NO_NAME,
            of=SCALER,
        ),
        ManifestRow(
            "nothing on missing data: no series counts as 0",
            "by itself",
            (*ASKED, "ignoreNullValues"),
            "false",
            "an exporter that is down would look like idle GPUs and take replicas away; here the endpoint says `ScalerFailed`",
            of=SCALER,
        ),
        ManifestRow(
            "nothing on a source that is down",
            "`scaling.fallback_replicas: 2`",
            ("spec", "fallback"),
            {"failureThreshold": 3, "replicas": 2},
            of=SCALER,
        ),
        ManifestRow(
            "nothing on swings",
            "`scaling.scale_down_stabilization_seconds`, left out",
            (*BEHAVIOR, "scaleDown", "stabilizationWindowSeconds"),
            300,
            "`cooldownPeriod` is for the way to zero alone",
            of=SCALER,
        ),
    ],
)

LATENCY = Example(
    title="ScaledObject by the queue of TorchServe",
    source="AI and GPU Workloads on Kubernetes: Device Plugin and Training Jobs, “Deployment of Models for Inference with TorchServe”",
    flavor=TORCHSERVE.flavor,
    shows=SCALER,
    body={
        **TORCHSERVE.body,
        "min_replicas": 1,
        "max_replicas": 10,
        "scaling": {"trigger": "queue-latency", "threshold": 100},
    },
    rows=[
        *_common(1, 10, "model-inference"),
        ManifestRow(
            "`avg(torchserve_queue_latency_microseconds{model_name=…})`",
            "`scaling.trigger: queue-latency`",
            (*ASKED, "query"),
            f"0.001 * {_rate('ts_queue_latency_microseconds')} / ({_rate('ts_inference_requests_total')} > 0)"
            f" or 0 * {_rate('ts_inference_requests_total')}",
            "TorchServe's metric is `ts_queue_latency_microseconds`, and a counter: it only grows, so that its own value would scale up "
            "for ever. Its rate over the rate of requests is what one of them waited, over the last two samples where a minute "
            "holds fewer. The pods are this endpoint's alone, not those "
            "of every model of that name",
            of=SCALER,
        ),
        ManifestRow(
            "no `metricType`: `AverageValue`",
            "by itself",
            (*TRIGGER, "metricType"),
            "Value",
            "the same: with `AverageValue` 300 ms would be 3 replicas, however many run and still take 300 ms",
            of=SCALER,
        ),
        ManifestRow(
            '`threshold: "100000"`, microseconds',
            "`scaling.threshold: 100`",
            (*ASKED, "threshold"),
            "100",
            "milliseconds, with every runtime",
            of=SCALER,
        ),
        ManifestRow(
            "`metricName: torchserve_queue_latency_microseconds`",
            "left out",
            (*TRIGGER, "type"),
            "prometheus",
            NO_NAME,
            of=SCALER,
        ),
        ManifestRow(
            "the metric is scraped, by annotations",
            "`runtime: torchserve`",
            (*ANNOTATIONS, "prometheus.io/port"),
            "8082",
            "with `metrics_mode=prometheus`, without which that port has no series of the queue",
        ),
    ],
)

EXAMPLES: tuple[Example, ...] = (UTILIZATION, LATENCY)
