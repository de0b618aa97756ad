from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class TelemetryConfig(AppConfig):
    name = "telemetry"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from telemetry import metrics, preflight  # noqa: F401 (importing registers them)
