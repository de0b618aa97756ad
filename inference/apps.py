from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class InferenceConfig(AppConfig):
    name = "inference"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controller.reconcile.adapters import register
        from controller.reconcile.gather_placement import POD_MONITOR
        from controller.routes import register_route_source
        from foundation.optional_kinds import register_optional_kinds
        from inference.adapter import EndpointAdapter
        from inference.autoscaling.scalers import KEDA
        from inference.queries import routes_to
        from inference.specs import KIND

        register(EndpointAdapter())
        register_optional_kinds({KEDA: True, POD_MONITOR: True})
        register_route_source(KIND, routes_to)
