"""See portal.runtime.serve; manage.py starts it without loading the applications into the parent process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from portal.runtime import serve


class Command(BaseCommand):
    help = "Serve pages and REST on PORTAL_BIND."
    # Every check would load all views and serializers; the deployment runs `check --deploy` once instead.
    requires_system_checks = []

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workers", type=int, default=serve.WORKERS)
        parser.add_argument("--threads", type=int, default=serve.THREADS)

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        serve.main([f"--workers={options['workers']}", f"--threads={options['threads']}"])
