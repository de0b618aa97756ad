"""The demo's steps, as a client of the public REST API. See demo.steps."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from demo import steps


class Command(BaseCommand):
    help = "Walk through the main job against a running portal; exit 0 only if all of it happened."
    requires_system_checks = []

    @override
    def handle(self, *_args: Any, **_options: Any) -> None:
        sys.exit(steps.main())
