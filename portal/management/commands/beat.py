"""See portal.runtime.beat; manage.py starts it without loading the applications."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from portal.runtime import beat


class Command(BaseCommand):
    help = "Send periodic wake-ups to the workers (Celery beat)."
    requires_system_checks = []

    @override
    def handle(self, *_args: Any, **_options: Any) -> None:
        sys.exit(beat.main([]))
