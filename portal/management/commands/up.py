"""See portal.runtime.up; manage.py starts it without loading the applications."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from portal.runtime import up


class Command(BaseCommand):
    help = "Start the portal and everything it needs that the environment does not name; Ctrl-C ends it."
    requires_system_checks = []

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs=argparse.REMAINDER)

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        sys.exit(up.main(options["arguments"]))
