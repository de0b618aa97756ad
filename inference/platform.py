"""What of the platform decides how endpoints are scaled: which scaler there is, and which Prometheus it asks."""

from __future__ import annotations

from django.conf import settings

from cluster import kinds
from foundation.models import PlatformSettings
from inference.models import Endpoint
from inference.scalers import AUTOSCALER, KEDA, ScalerPlatform, steering
from inference.specs import EndpointSpec
from workloads.queries import followed_kinds


def engine() -> str:
    """KEDA where the API serves it and the settings name it, else the cluster's own autoscaler.

    What the API serves is what the watcher found when it last asked.
    """
    return _engine(followed_kinds())


def _engine(followed: frozenset[str]) -> str:
    named = KEDA in PlatformSettings.current().optional_kinds
    return KEDA if named and kinds.SCALED_OBJECT.address in followed else AUTOSCALER


def prometheus_url() -> str:
    """Where scalers ask: the setting, or where the portal itself asks; empty where there is none."""
    return PlatformSettings.current().scaler_prometheus_url or settings.PROMETHEUS_URL or ""


def scaler_platform(endpoint: Endpoint, spec: EndpointSpec) -> ScalerPlatform:
    """How an endpoint of this spec is scaled now. KEDA is told to pause; an autoscaler cannot be, and is taken away
    meanwhile.
    """
    followed = followed_kinds()
    found, is_held, held_at = _engine(followed), endpoint.is_held(spec), endpoint.held_at(spec)
    away = is_held and found == AUTOSCALER
    steered = steering(paused=is_held, paused_replicas=held_at, wakes=False)
    kinds_of_scalers = (kinds.SCALED_OBJECT, kinds.AUTOSCALER)
    return ScalerPlatform(
        served=frozenset(each.kind for each in kinds_of_scalers if each.address in followed),
        engine="" if away else found,
        held_at=held_at if away else None,
        held={key: value for key, value in steered.items() if value is not None},
        prometheus_url=prometheus_url(),
        exported_labels=PlatformSettings.current().dcgm_labels == PlatformSettings.DcgmLabels.EXPORTED,
    )
