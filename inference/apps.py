from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class InferenceConfig(AppConfig):
    name = "inference"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controller.adapters import register
        from controller.routes import register_route_source
        from inference.adapter import KIND, EndpointAdapter
        from inference.queries import routes_to

        register(EndpointAdapter())
        register_route_source(KIND, routes_to)
