from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class WorkloadsConfig(AppConfig):
    name = "workloads"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from workloads import metrics  # noqa: F401 (importing registers them)
