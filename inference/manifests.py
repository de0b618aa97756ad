"""The objects of one revision of an endpoint, as a pure function of its spec and its placement."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cluster.kinds import POD_MONITOR
from cluster.labels import METRICS_PORT, REVISION, WORKLOAD_ID
from inference.autoscaling.scalers import (
    NO_SCALER,
    SCALER_ANNOTATION,
    ScalerPlatform,
    build_scaler,
    retired_scalers,
)
from inference.runtimes import CONFIG_FOLDER, METRICS_PATH, Started
from inference.serving_spec import ProbeSpec
from inference.specs import DRAIN_SECONDS, SURGE, EndpointSpec
from workloads.placement import Placement
from workloads.podspec import model_source, pod_template
from workloads.podspec.pod_template import ClaimMount, Manifest, ManifestSet, PodParts

CONTAINER_NAME = "server"
CONFIG_VOLUME = "server-config"
PROGRESS_ALLOWANCE_SECONDS = 1800
"""For scheduling on a node that may have to come first, and for pulling a large image."""
STARTUP_PERIOD_SECONDS = 5
PROBE_TIMEOUT_SECONDS = 5
REVISIONS_KEPT = 3


def build_endpoint(
    spec: EndpointSpec,
    placement: Placement,
    *,
    replicas: int,
    revision: int = 0,
    strategy: str | None = None,
    platform: ScalerPlatform | None = None,
) -> ManifestSet:
    """The Deployment with `replicas` pods, its Service and PodDisruptionBudget, the ConfigMaps of its files and of its
    server's configuration, and a PodMonitor where the cluster has them and a port answers /metrics.

    With a `platform`, an endpoint that scales gets its scaler, which sets the number of replicas: `replicas` are those to
    begin with. Without one the number is fixed.

    `revision` is the one that gave the pods their template, 0 for none: revisions with the same pods name the same
    one, so that the Deployment leaves its pods alone. `strategy` is how this one is rolled out, if not as its spec
    says.

    `placement.object_name` must stay the same over all revisions: Deployment, Service and budget are updated
    in place, and the selector, which cannot change, is the workload's id alone. A ConfigMap never changes,
    so its name holds a digest of what is in it; an older one goes when the Deployment goes, which keeps a
    rollback possible.
    """
    own = dict(spec.source.files) if spec.source else {}
    files = pod_template.files_config_map(f"{placement.object_name}-files-{_digest(own)}", spec, placement)
    started = spec.started()
    config = _server_config(started, spec, placement)
    parts = _parts(spec, placement, files, started, config)
    dependants = [
        *(config_map for config_map in (files, config) if config_map is not None),
        _service(spec, placement),
        _disruption_budget(spec, placement),
        *_pod_monitor(spec, placement),
    ]
    deployment = _deployment(parts, spec, placement, replicas, strategy or spec.strategy)
    if revision:
        deployment["spec"]["template"]["metadata"]["labels"][REVISION] = str(revision)
    if platform is None:
        return ManifestSet(deployment, tuple(dependants))
    return _scaled(ManifestSet(deployment, tuple(dependants)), spec, placement, platform)


def _scaled(
    fixed: ManifestSet, spec: EndpointSpec, placement: Placement, platform: ScalerPlatform
) -> ManifestSet:
    """The same with its scaler, to which the number of replicas is left; and without the scalers it has no more."""
    scaler = build_scaler(spec, placement, platform)
    retired = retired_scalers(placement.namespace, placement.object_name, scaler, platform.served)
    if not spec.scales or platform.held_at is not None:
        return replace(fixed, retired=retired)
    primary = {**fixed.primary, "spec": dict(fixed.primary["spec"])}
    first = primary["spec"].pop("replicas")
    if platform.engine:
        annotations = {SCALER_ANNOTATION: NO_SCALER if scaler is None else platform.engine}
        primary["metadata"] = {**primary["metadata"], "annotations": annotations}
    scalers = () if scaler is None else (scaler,)
    dependants = (*fixed.dependants, *scalers)
    most = spec.max_replicas
    return ManifestSet(primary, dependants, replicas_at_first=first, replicas_most=most, retired=retired)


def service_ports(spec: EndpointSpec) -> list[Manifest]:
    return [{"name": name, "port": port, "targetPort": name} for name, port in spec.ports.named().items()]


def _deployment(
    parts: PodParts, spec: EndpointSpec, placement: Placement, replicas: int, strategy: str
) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": REVISIONS_KEPT,
            "progressDeadlineSeconds": spec.probes.load_budget_seconds + PROGRESS_ALLOWANCE_SECONDS,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(strategy)},
            "selector": {"matchLabels": pod_template.workload_selector(placement)},
            "template": pod_template.pod_template(parts, placement),
        },
    }


def _rolling_update(strategy: str) -> dict[str, int]:
    """`replace` never asks for more GPUs than the endpoint holds, at the price of a gap in serving."""
    surge = strategy == SURGE
    return {"maxSurge": int(surge), "maxUnavailable": int(not surge)}


def _service(spec: EndpointSpec, placement: Placement) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "type": "ClusterIP",
            "selector": pod_template.workload_selector(placement),
            "ports": service_ports(spec),
        },
    }


def _disruption_budget(spec: EndpointSpec, placement: Placement) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            # maxUnavailable, because minAvailable 1 with one replica would block every drain of a node.
            "maxUnavailable": 1,
            "selector": {"matchLabels": pod_template.workload_selector(placement)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _server_config(started: Started, spec: EndpointSpec, placement: Placement) -> Manifest | None:
    if not started.config:
        return None
    name = f"{placement.object_name}-config-{_digest(started.config)}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": pod_template.metadata(name, spec, placement),
        "immutable": True,
        "data": dict(started.config),
    }


def _parts(
    spec: EndpointSpec,
    placement: Placement,
    files: Manifest | None,
    started: Started,
    config: Manifest | None,
) -> PodParts:
    claims = [ClaimMount(volume.claim, volume.path, volume.read_only) for volume in spec.volumes]
    if spec.model is not None and spec.model.claim is not None:
        claims.append(ClaimMount(spec.model.claim, spec.model.path, read_only=True))
    volumes, mounts, init = _model(spec, placement, started)
    if config is not None:
        volumes.append({"name": CONFIG_VOLUME, "configMap": {"name": config["metadata"]["name"]}})
        mounts.append(pod_template.mount_of(CONFIG_VOLUME, CONFIG_FOLDER, read_only=True))
    return PodParts(
        spec=replace(spec, command=started.command, args=started.args),
        container_name=CONTAINER_NAME,
        claims=claims,
        files_config_map=files["metadata"]["name"] if files else None,
        default_env=[
            {**pod_template.UNBUFFERED},
            *({"name": name, "value": value} for name, value in started.env.items()),
        ],
        annotations=_scraped(spec),
        labels={METRICS_PORT: metrics[0]} if (metrics := metrics_port(spec)) else {},
        grace_seconds=max(placement.grace_seconds, spec.request_timeout_seconds + DRAIN_SECONDS),
        restart_policy="Always",
        volumes=volumes,
        mounts=mounts,
        init_containers=init,
        container_extra={
            "ports": [{"name": name, "containerPort": port} for name, port in spec.ports.named().items()],
            **_probes(spec),
            "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
        },
    )


def _model(
    spec: EndpointSpec, placement: Placement, started: Started
) -> tuple[list[Manifest], list[Manifest], list[Manifest]]:
    """(volumes, mounts, init containers) that bring the model, and check that what the server is to serve is there."""
    volumes, mounts, init = [], [], []
    common = pod_template.helper_fields(spec)
    model = spec.model
    if model is not None and model.uri is not None:
        volumes.append({"name": model_source.VOLUME, "emptyDir": {"sizeLimit": model.size_limit}})
        mounts.append(pod_template.mount_of(model_source.VOLUME, model.path, read_only=True))
        init.append(
            model_source.fetch_container(
                model.uri,
                secret=model.secret,
                image=placement.storage_image,
                mount=pod_template.mount_of(model_source.VOLUME, model.path, read_only=False),
                common=common,
            )
        )
    if started.looked_for:
        init.append(model_source.check_container(started.looked_for, image=spec.image, common=common))
    return volumes, mounts, init


def metrics_port(spec: EndpointSpec) -> tuple[str, int] | None:
    """Name and number of the port that answers /metrics; None where no such port is known."""
    port = spec.ports.named().get(spec.preset.metrics_port)
    return (spec.preset.metrics_port, port) if port is not None else None


# What a pod may not say of itself or others: scalers of all teams go by these series.
_OF_THE_PLATFORM: Final = {"sourceLabels": ["__name__"], "regex": "(DCGM_FI_|mlportal_).*", "action": "drop"}


def _pod_monitor(spec: EndpointSpec, placement: Placement) -> list[Manifest]:
    """The object by which an operated Prometheus finds the pods' metrics, with the same labels as by the annotations."""
    metrics = metrics_port(spec)
    if metrics is None or not placement.pod_monitors:
        return []
    return [
        {
            "apiVersion": POD_MONITOR.api_version,
            "kind": POD_MONITOR.kind,
            "metadata": pod_template.metadata(placement.object_name, spec, placement),
            "spec": {
                "selector": {"matchLabels": pod_template.workload_selector(placement)},
                "podTargetLabels": [WORKLOAD_ID, REVISION],
                "podMetricsEndpoints": [
                    {"port": metrics[0], "path": METRICS_PATH, "metricRelabelings": [_OF_THE_PLATFORM]}
                ],
            },
        }
    ]


def _scraped(spec: EndpointSpec) -> dict[str, str]:
    """The annotations by which a Prometheus that reads annotations finds the pod's metrics."""
    metrics = metrics_port(spec)
    if metrics is None:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(metrics[1]),
        "prometheus.io/path": METRICS_PATH,
    }


def _probes(spec: EndpointSpec) -> dict[str, Any]:
    """The startup probe spends the load budget; the other two begin when it has succeeded."""
    probes = spec.probes
    startup = {
        **_check(probes.readiness.path),
        "periodSeconds": STARTUP_PERIOD_SECONDS,
        "failureThreshold": math.ceil(probes.load_budget_seconds / STARTUP_PERIOD_SECONDS),
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
    }
    built = {"startupProbe": startup, "readinessProbe": _probe(probes.readiness)}
    if probes.liveness is not None:
        built["livenessProbe"] = _probe(probes.liveness)
    return built


def _probe(probe: ProbeSpec) -> Manifest:
    return {
        **_check(probe.path),
        "initialDelaySeconds": probe.initial_delay_seconds,
        "periodSeconds": probe.period_seconds,
        "failureThreshold": probe.failure_threshold,
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
    }


def _check(path: str | None) -> Manifest:
    return {"tcpSocket": {"port": "http"}} if path is None else {"httpGet": {"path": path, "port": "http"}}


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:8]
