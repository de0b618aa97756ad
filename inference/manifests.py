"""The objects of one revision of an endpoint, as a pure function of its spec and its placement."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from cluster.labels import REVISION
from controller import podspec
from controller.podspec import ClaimMount, Manifest, ManifestSet, PodParts
from inference.specs import SURGE, EndpointSpec, ProbeSpec
from workloads.placement import Placement

CONTAINER_NAME = "server"
PROGRESS_ALLOWANCE_SECONDS = 1800
"""For scheduling on a node that may have to come first, and for pulling a large image."""
DRAIN_SECONDS = 5
"""How long a pod keeps serving after it was told to go, until no proxy sends it new requests any more."""
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
) -> ManifestSet:
    """The Deployment with `replicas` pods, its Service and PodDisruptionBudget, and the ConfigMap of its files.

    `revision` is the one that gave the pods their template, 0 for none: revisions with the same pods name the same
    one, so that the Deployment leaves its pods alone. `strategy` is how this one is rolled out, if not as its spec
    says.

    `placement.object_name` must stay the same over all revisions: Deployment, Service and budget are updated
    in place, and the selector, which cannot change, is the workload's id alone. The ConfigMap never changes,
    so its name holds a digest of the files; an older one goes when the Deployment goes, which keeps a
    rollback possible.
    """
    files = podspec.files_config_map(f"{placement.object_name}-files-{_digest(spec)}", spec, placement)
    parts = _parts(spec, placement, files)
    dependants = [_service(spec, placement), _disruption_budget(spec, placement)]
    if files is not None:
        dependants.insert(0, files)
    deployment = _deployment(parts, spec, placement, replicas, strategy or spec.strategy)
    if revision:
        deployment["spec"]["template"]["metadata"]["labels"][REVISION] = str(revision)
    return ManifestSet(deployment, tuple(dependants))


def service_ports(spec: EndpointSpec) -> list[Manifest]:
    return [{"name": name, "port": port, "targetPort": name} for name, port in spec.ports.named().items()]


def _deployment(
    parts: PodParts, spec: EndpointSpec, placement: Placement, replicas: int, strategy: str
) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": podspec.metadata(placement.object_name, spec, placement),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": REVISIONS_KEPT,
            "progressDeadlineSeconds": spec.probes.load_budget_seconds + PROGRESS_ALLOWANCE_SECONDS,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(strategy)},
            "selector": {"matchLabels": podspec.workload_selector(placement)},
            "template": podspec.pod_template(parts, placement),
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
        "metadata": podspec.metadata(placement.object_name, spec, placement),
        "spec": {
            "type": "ClusterIP",
            "selector": podspec.workload_selector(placement),
            "ports": service_ports(spec),
        },
    }


def _disruption_budget(spec: EndpointSpec, placement: Placement) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": podspec.metadata(placement.object_name, spec, placement),
        "spec": {
            # maxUnavailable, because minAvailable 1 with one replica would block every drain of a node.
            "maxUnavailable": 1,
            "selector": {"matchLabels": podspec.workload_selector(placement)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _parts(spec: EndpointSpec, placement: Placement, files: Manifest | None) -> PodParts:
    claims = [ClaimMount(volume.claim, volume.path, volume.read_only) for volume in spec.volumes]
    if spec.model is not None:
        claims.append(ClaimMount(spec.model.claim, spec.model.path, read_only=True))
    return PodParts(
        spec=spec,
        container_name=CONTAINER_NAME,
        claims=claims,
        files_config_map=files["metadata"]["name"] if files else None,
        grace_seconds=max(placement.grace_seconds, spec.request_timeout_seconds + DRAIN_SECONDS),
        restart_policy="Always",
        container_extra={
            "ports": [{"name": name, "containerPort": port} for name, port in spec.ports.named().items()],
            **_probes(spec),
            "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
        },
    )


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


def _digest(spec: EndpointSpec) -> str:
    files = dict(spec.source.files) if spec.source else {}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:8]
