"""How the platform decides how endpoints are scaled: which scaler there is, and which Prometheus it asks."""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings

from cluster import kinds
from foundation.models import PlatformSettings
from inference.autoscaling.scalers import AUTOSCALER, KEDA, ScalerPlatform, steering
from inference.enforced_query import Border
from inference.models import Endpoint
from inference.specs import EndpointSpec
from workloads.watches import Followed, Watches, followed_kinds


def engine() -> str:
    """KEDA where the API serves it and the settings name it, else the cluster's own autoscaler.

    What the API serves is what the watcher found when it last asked.
    """
    return _engine(followed_kinds(), PlatformSettings.current().optional_kinds)


def engine_by(watches: Watches) -> str:
    """The same by what was read already; no query."""
    return _engine(watches.kinds, watches.settings.optional_kinds)


def _engine(followed: frozenset[str], named: Collection[str]) -> str:
    return KEDA if KEDA in named and kinds.SCALED_OBJECT.address in followed else AUTOSCALER


def border_of(namespace: str) -> Border:
    """Which series a query of the namespace's team may see, by the settings of now."""
    known = PlatformSettings.current()
    return Border(namespace, known.dcgm_labels == PlatformSettings.DcgmLabels.EXPORTED, known.dcgm_job)


def prometheus_url() -> str:
    """Where scalers ask: the setting, or where the portal itself asks; empty where there is none."""
    return PlatformSettings.current().scaler_prometheus_url or settings.PROMETHEUS_URL or ""


def scaler_platform(
    endpoint: Endpoint, spec: EndpointSpec, *, followed: Followed = followed_kinds
) -> ScalerPlatform:
    """How an endpoint of this spec is scaled now. KEDA can pause; an autoscaler cannot, and is deleted meanwhile."""
    served, settings = followed(), PlatformSettings.current()
    scaler_engine = _engine(served, settings.optional_kinds)
    is_held, held_at = endpoint.is_held(spec), endpoint.held_at(spec)
    away = is_held and scaler_engine == AUTOSCALER
    steered = steering(paused=is_held, paused_replicas=held_at, wakes=False)
    kinds_of_scalers = (kinds.SCALED_OBJECT, kinds.AUTOSCALER)
    return ScalerPlatform(
        served=frozenset(kind.kind for kind in kinds_of_scalers if kind.address in served),
        engine="" if away else scaler_engine,
        held_at=held_at if away else None,
        held={key: value for key, value in steered.items() if value is not None},
        prometheus_url=prometheus_url(),
        exported_labels=settings.dcgm_labels == PlatformSettings.DcgmLabels.EXPORTED,
        dcgm_job=settings.dcgm_job,
    )
