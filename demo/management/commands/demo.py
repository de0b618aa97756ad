"""`make demo`: everything embedded, a seeded team, and the steps. See demo.start."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from demo import start


class Command(BaseCommand):
    help = "Train a real model, deploy it, call it and bill it; then serve until Ctrl-C."
    requires_system_checks = []

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="end after the steps")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        sys.exit(start.main(once=options["once"]))
