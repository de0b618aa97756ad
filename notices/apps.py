from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class NoticesConfig(AppConfig):
    name = "notices"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        import notices.metrics
        import notices.receivers  # noqa: F401 (connects them)
