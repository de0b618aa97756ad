"""The object that scales an endpoint: KEDA's ScaledObject, or a HorizontalPodAutoscaler. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster import kinds
from cluster.kinds import ObjectRef
from inference import promql
from inference.enforced_query import Border, held
from inference.promql import Subject, plain
from inference.scaling_spec import ScalingSpec
from inference.specs import EndpointSpec
from inference.triggers import IN_FLIGHT
from workloads.placement import MIG_PREFIX, Placement, Sharing
from workloads.podspec import pod_template
from workloads.podspec.pod_template import Manifest

KEDA = "keda"
AUTOSCALER = "hpa"
SCALER_ANNOTATION = "mlportal.dev/scaler"
"""On the Deployment: which kind of scaler stands beside it, so that its absence is noticed."""
NO_SCALER = "none"
"""In that annotation: none that the cluster offers can do what is asked."""
FORCE_ACTIVATION = "autoscaling.keda.sh/force-activation"
PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
POLLING_SECONDS = 15
POLLING_AT_ZERO_SECONDS = 5
"""Shorter, because a caller waits for an answer meanwhile."""
FAILURES_TO_FALL_BACK = 3
WAKES_ONLY = 1_000_000
"""The target of requests in flight to each replica, for a trigger that is there only to wake the endpoint."""
_METRIC_TYPES = {"value": "Value", "average-value": "AverageValue"}


@dataclass(frozen=True, slots=True)
class ScalerPlatform:
    """The facts of the platform that a scaler's manifest depends on."""

    engine: str = KEDA
    """Empty where its scaler is taken away for a while."""
    held_at: int | None = None
    """Replicas that a user wants it to have meanwhile, whatever its scaler would say."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Annotations that pause a ScaledObject: one that is made again must not scale before it is steered."""
    served: frozenset[str] = frozenset()
    """Kinds of scalers that the API serves."""
    prometheus_url: str = ""
    exported_labels: bool = True
    """Whether the pods of DCGM's metrics are labelled `exported_pod` and `exported_namespace`."""
    dcgm_job: str = ""


def build_scaler(spec: EndpointSpec, placement: Placement, platform: ScalerPlatform) -> Manifest | None:
    """The scaler's object; None where the number of replicas is fixed, or this engine cannot do what is asked."""
    if spec.scaling is None or not spec.scales:
        return None
    if platform.engine == KEDA:
        return _scaled_object(spec, spec.scaling, placement, platform)
    if platform.engine == AUTOSCALER and spec.scaling.row.by_autoscaler and not spec.scale_to_zero:
        return _autoscaler(spec, spec.scaling, placement)
    return None


def scaler_refs(namespace: str, name: str, engine: str) -> tuple[ObjectRef, ...]:
    """The scaler's objects by name; the first is the portal's own."""
    if engine == AUTOSCALER:
        return (_ref(kinds.AUTOSCALER, namespace, name),)
    return _ref(kinds.SCALED_OBJECT, namespace, name), _ref(kinds.AUTOSCALER, namespace, f"keda-hpa-{name}")


def retired_scalers(
    namespace: str, name: str, made: Manifest | None, served: frozenset[str]
) -> tuple[ObjectRef, ...]:
    """The portal's own scalers that an endpoint may have had and has no more."""
    own = (_ref(kinds.SCALED_OBJECT, namespace, name), _ref(kinds.AUTOSCALER, namespace, name))
    return tuple(ref for ref in own if ref.kind in served and (made is None or ref.kind != made["kind"]))


def _ref(kind: kinds.ResourceKind, namespace: str, name: str) -> ObjectRef:
    return ObjectRef(kind.api_version, kind.kind, namespace, name)


def _scaled_object(
    spec: EndpointSpec, scaling: ScalingSpec, placement: Placement, platform: ScalerPlatform
) -> Manifest:
    subject = subject_of(
        spec, placement, exported_labels=platform.exported_labels, dcgm_job=platform.dcgm_job
    )
    polling = POLLING_AT_ZERO_SECONDS if spec.scale_to_zero else POLLING_SECONDS
    manifest: Manifest = {
        "apiVersion": kinds.SCALED_OBJECT.api_version,
        "kind": kinds.SCALED_OBJECT.kind,
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "scaleTargetRef": {
                "apiVersion": kinds.DEPLOYMENT.api_version,
                "kind": kinds.DEPLOYMENT.kind,
                "name": placement.object_name,
            },
            "pollingInterval": polling,
            **_limits(spec, scaling),
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(scaling)}},
            "triggers": _triggers(spec, scaling, subject, platform),
        },
    }
    if platform.held:
        manifest["metadata"]["annotations"] = dict(platform.held)
    if scaling.fallback_replicas is not None:
        manifest["spec"]["fallback"] = {
            "failureThreshold": _failures(spec, scaling, polling),
            "replicas": scaling.fallback_replicas,
        }
    return manifest


def subject_of(
    spec: EndpointSpec, placement: Placement, *, exported_labels: bool, dcgm_job: str = ""
) -> Subject:
    return Subject(
        endpoint_id=placement.workload_id,
        namespace=placement.namespace,
        object_name=placement.object_name,
        runtime=spec.runtime,
        is_mig=placement.sharing is Sharing.MIG or (placement.resource_name or "").startswith(MIG_PREFIX),
        exported_labels=exported_labels,
        dcgm_job=dcgm_job,
    )


def _limits(spec: EndpointSpec, scaling: ScalingSpec) -> dict[str, int]:
    limits = {"minReplicaCount": spec.min_replicas, "maxReplicaCount": spec.max_replicas}
    if not spec.scale_to_zero:
        return limits
    # What it wakes to is the minimum, and zero what it idles at: of one replica KEDA wants that in one number.
    zero = {"minReplicaCount": 0} if spec.min_replicas == 1 else {"idleReplicaCount": 0}
    first = spec.probes.load_budget_seconds + scaling.cooldown_seconds
    return limits | zero | {"cooldownPeriod": scaling.cooldown_seconds, "initialCooldownPeriod": first}


def _behavior(scaling: ScalingSpec) -> Manifest:
    return {
        "scaleUp": {"stabilizationWindowSeconds": scaling.scale_up_stabilization_seconds},
        "scaleDown": {"stabilizationWindowSeconds": scaling.scale_down_stabilization_seconds},
    }


def _failures(spec: EndpointSpec, scaling: ScalingSpec, polling: int) -> int:
    """How often the metric may fail before the fallback: a pod that still loads gives no metric of its own yet."""
    if scaling.row.signals:
        return FAILURES_TO_FALL_BACK + math.ceil(spec.probes.load_budget_seconds / polling)
    return FAILURES_TO_FALL_BACK


def _triggers(
    spec: EndpointSpec, scaling: ScalingSpec, subject: Subject, platform: ScalerPlatform
) -> list[Manifest]:
    triggers = _SCALERS[scaling.row.scaler](scaling, subject, platform)
    if spec.scale_to_zero and scaling.trigger != IN_FLIGHT:
        calls = promql.in_flight(subject.endpoint_id)
        triggers.append(_prometheus(calls, "AverageValue", str(WAKES_ONLY), "0", platform))
    return triggers


def _by_query(scaling: ScalingSpec, subject: Subject, platform: ScalerPlatform) -> list[Manifest]:
    signal = scaling.row.signal(subject, query=scaling.query, metric_type=scaling.metric_type)
    return [
        _prometheus(
            signal.query,
            _METRIC_TYPES[signal.metric_type],
            plain(scaling.threshold or 0),
            plain(scaling.activation_threshold or 0),
            platform,
        )
    ]


def _by_cpu(scaling: ScalingSpec, _subject: Subject, _platform: ScalerPlatform) -> list[Manifest]:
    return [
        {"type": "cpu", "metricType": "Utilization", "metadata": {"value": plain(scaling.threshold or 0)}}
    ]


def _by_clock(scaling: ScalingSpec, _subject: Subject, _platform: ScalerPlatform) -> list[Manifest]:
    return [
        {
            "type": "cron",
            "metadata": {
                "timezone": window.timezone,
                "start": window.start,
                "end": window.end,
                "desiredReplicas": str(window.replicas),
            },
        }
        for window in scaling.schedule
    ]


_SCALERS: Mapping[str, Callable[[ScalingSpec, Subject, ScalerPlatform], list[Manifest]]] = {
    "prometheus": _by_query,
    "cpu": _by_cpu,
    "cron": _by_clock,
}


def _prometheus(
    query: str, metric_type: str, threshold: str, activation: str, platform: ScalerPlatform
) -> Manifest:
    return {
        "type": "prometheus",
        "metricType": metric_type,
        "metadata": {
            "serverAddress": platform.prometheus_url,
            "query": query,
            "threshold": threshold,
            "activationThreshold": activation,
            # No series at all is a source that is not scraped, and not a load of 0.
            "ignoreNullValues": "false",
        },
    }


def _autoscaler(spec: EndpointSpec, scaling: ScalingSpec, placement: Placement) -> Manifest:
    utilization = {"type": "Utilization", "averageUtilization": round(scaling.threshold or 0)}
    return {
        "apiVersion": kinds.AUTOSCALER.api_version,
        "kind": kinds.AUTOSCALER.kind,
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "scaleTargetRef": {
                "apiVersion": kinds.DEPLOYMENT.api_version,
                "kind": kinds.DEPLOYMENT.kind,
                "name": placement.object_name,
            },
            "minReplicas": spec.min_replicas,
            "maxReplicas": spec.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
            "behavior": _behavior(scaling),
        },
    }


def steering_patch(companion: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The patch of the wanted annotations that a ScaledObject does not have; empty for other kinds, and where all is well."""
    if companion.get("kind") != kinds.SCALED_OBJECT.kind:
        return {}
    annotations = companion["metadata"].get("annotations") or {}
    changes = {key: value for key, value in wanted.items() if annotations.get(key) != value}
    return {"metadata": {"annotations": changes}} if changes else {}


def query_patch(companion: Mapping[str, Any], scaling: ScalingSpec | None, border: Border) -> dict[str, Any]:
    """The patch that holds a ScaledObject's own query to the team's namespace, where it still runs as it was written.

    Releases before queries were held made such objects; empty for all others.
    """
    if companion.get("kind") != kinds.SCALED_OBJECT.kind or scaling is None or not scaling.query:
        return {}
    first, *others = companion["spec"].get("triggers") or [{}]
    metadata = first.get("metadata") or {}
    # Every look asks: the query is parsed only where the object still has it as it was written.
    if metadata.get("query") != scaling.query or (own := held(scaling.query, border)) == scaling.query:
        return {}
    return {"spec": {"triggers": [{**first, "metadata": {**metadata, "query": own}}, *others]}}


def needs_prometheus(spec: EndpointSpec) -> bool:
    return spec.scaling is not None and (spec.scaling.row.asks_prometheus or spec.scale_to_zero)


def steering(*, paused: bool, paused_replicas: int | None, wakes: bool) -> dict[str, Any]:
    """The annotations that steer a ScaledObject; None for those that are to go."""
    held = paused and paused_replicas is not None
    return {
        PAUSED: "true" if paused and not held else None,
        PAUSED_REPLICAS: str(paused_replicas) if held else None,
        FORCE_ACTIVATION: "true" if wakes and not paused else None,
    }
