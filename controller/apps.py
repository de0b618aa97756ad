from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_save
from typing_extensions import override

from foundation import clock


class ControllerConfig(AppConfig):
    name = "controller"

    @override
    def ready(self) -> None:
        import controller.preflight  # noqa: F401 (registers its checks)
        from controller.wakeups import wake_all_live
        from foundation.models import PlatformSettings

        def look_again(**_: Any) -> None:
            """A look that was planned by the old settings, as for the end of a deadline, may come too late by the new."""
            wake_all_live(now=clock.now())

        post_save.connect(look_again, sender=PlatformSettings, weak=False, dispatch_uid="controller.settings")
