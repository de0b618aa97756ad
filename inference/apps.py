from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class InferenceConfig(AppConfig):
    name = "inference"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controller.adapters import register
        from inference.adapter import EndpointAdapter

        register(EndpointAdapter())
