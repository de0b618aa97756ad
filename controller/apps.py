from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class ControllerConfig(AppConfig):
    name = "controller"

    @override
    def ready(self) -> None:
        import controller.preflight  # noqa: F401 (registers its checks)
