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
        from jobs import receivers  # noqa: F401 - connects them
        from jobs.adapter import TrainingRunAdapter
        from jobs.kinds import OPTIONAL
        from jobs.offers import refused_by_restricted
        from teams.pod_security import register_hindrances

        register(TrainingRunAdapter())
        register_optional_kinds(OPTIONAL)
        register_hindrances(refused_by_restricted)
