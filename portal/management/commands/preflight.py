"""`manage.py preflight`: what the cluster has and lacks, each finding with its fix."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from cluster import preflight
from cluster.client import get_client

_WIDTH = 100
_MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}


class Command(BaseCommand):
    help = "Says what the cluster has and lacks, with a fix for each. Exit status 1 if something needed is missing."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the findings as a JSON list")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        checks = preflight.run(get_client())
        if options["json"]:
            self.stdout.write(json.dumps([check.as_dict() for check in checks], indent=2))
        else:
            self.stdout.write("\n".join(line for check in checks for line in _lines(check)))
        if any(check.status == "fail" for check in checks):
            sys.exit(1)


def _lines(check: preflight.Check) -> list[str]:
    head = f"{_MARKS[check.status]}  {check.title}"
    detail = textwrap.wrap(check.detail, _WIDTH, initial_indent="      ", subsequent_indent="      ")
    fix = textwrap.wrap(check.fix, _WIDTH, initial_indent="      fix: ", subsequent_indent="           ")
    return [head, *detail, *fix]
