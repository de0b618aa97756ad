from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class JobsConfig(AppConfig):
    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controller.reconcile.adapters import register
        from foundation.optional_kinds import register_optional_kinds
        from jobs.adapter import TrainingRunAdapter
        from jobs.kinds import OPTIONAL

        register(TrainingRunAdapter())
        register_optional_kinds(OPTIONAL)
