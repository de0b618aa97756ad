from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from portal.runtime import work


class Command(BaseCommand):
    help = "Run background tasks (a Celery worker with threads)."
    # Every check would load all views and serializers; the deployment runs `check --deploy` once instead.
    requires_system_checks = []

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--concurrency",
            type=int,
            default=work.CONCURRENCY,
            help="workloads looked at at the same time; other tasks have threads of their own",
        )

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        sys.exit(work.run(concurrency=options["concurrency"], metrics_bind=settings.ENVIRONMENT.metrics_bind))
