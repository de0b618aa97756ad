from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class QuotasConfig(AppConfig):
    name = "quotas"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from quotas import metrics, receivers  # noqa: F401 (importing connects them)
