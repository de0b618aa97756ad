from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class TeamsConfig(AppConfig):
    name = "teams"
    verbose_name = "People"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from teams.api import schema  # noqa: F401 - registers itself
