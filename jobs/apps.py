from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class JobsConfig(AppConfig):
    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controller.adapters import register
        from jobs.adapter import TrainingRunAdapter

        register(TrainingRunAdapter())
