from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from portal.runtime import live
from portal.runtime.refusals import refusals


class Command(BaseCommand):
    help = "Serve events, log streams and the gateway on PORTAL_LIVE_BIND."
    # Every check would load all views and serializers; the deployment runs `check --deploy` once instead.
    requires_system_checks = []

    @override
    def handle(self, *_args: Any, **_options: Any) -> None:
        reasons = refusals(settings.ENVIRONMENT)
        if reasons:
            raise CommandError("\n".join(reasons))
        live.run(settings.ENVIRONMENT)
