from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class WorkloadsConfig(AppConfig):
    name = "workloads"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from teams.trail.names import register_names
        from workloads import metrics  # noqa: F401 (importing registers them)
        from workloads.models import Workload

        # Every kind of them, and those of apps that are still to be written.
        register_names(
            lambda ids: dict(Workload.objects.filter(public_id__in=ids).values_list("public_id", "name"))
        )
