from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from portal.runtime.refusals import refusals


class Command(BaseCommand):
    help = "Serve pages and REST on PORTAL_BIND."
    # Every check would load all views and serializers; the deployment runs `check --deploy` once instead.
    requires_system_checks = []

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--threads", type=int, default=0, help="Requests answered at the same time.")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        reasons = refusals(settings.ENVIRONMENT)
        if reasons:
            raise CommandError("\n".join(reasons), returncode=2)
        from portal.runtime import serve  # noqa: PLC0415 (it makes the WSGI application)

        serve.run(settings.ENVIRONMENT, threads=options["threads"] or serve.THREADS)
