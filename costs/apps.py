from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class CostsConfig(AppConfig):
    name = "costs"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from costs import metrics  # noqa: F401 (importing registers them)
