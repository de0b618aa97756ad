from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from portal.runtime import watch


class Command(BaseCommand):
    help = "Follow the cluster: pods, objects and nodes become rows, logs are collected."
    # Every check would load all views and serializers; the deployment runs `check --deploy` once instead.
    requires_system_checks = []

    @override
    def handle(self, *_args: Any, **_options: Any) -> None:
        try:
            watch.run(metrics_bind=settings.ENVIRONMENT.metrics_bind)
        except watch.NoWatcherError as problem:
            raise CommandError(str(problem)) from problem
