from __future__ import annotations

from typing import Any, Final

from django.apps import AppConfig
from typing_extensions import override

from foundation import clock

DEADLINES: Final = frozenset({"image_pull_deadline_seconds", "schedule_deadline_seconds", "grace_seconds"})


class ControllerConfig(AppConfig):
    name = "controller"

    @override
    def ready(self) -> None:
        import controller.metrics  # noqa: F401 (is scraped)
        from controller.wakeups import wake_all_live
        from foundation.signals import settings_changed

        def look_again(names: frozenset[str], **_: Any) -> None:
            """A look that was planned by the old deadline may come too late by the new one."""
            if names & DEADLINES:
                wake_all_live(now=clock.now())

        settings_changed.connect(look_again, weak=False, dispatch_uid="controller.deadlines")
