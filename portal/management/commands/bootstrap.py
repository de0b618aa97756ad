from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from foundation import clock
from portal.bootstrap import BootstrapError, load


class Command(BaseCommand):
    help = "Load teams, users, flavors, quotas, prices and templates from a YAML file; a second run changes nothing."

    @override
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", type=Path, nargs="+", metavar="FILE")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        for path in options["files"]:
            self._load(path)

    def _load(self, path: Path) -> None:
        """All of this file, or nothing of it; those before it stay."""
        try:
            report = load(path.read_text(encoding="utf-8"), now=clock.now())
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path} cannot be read: {error}") from error
        except BootstrapError as error:
            raise CommandError(f"{path}: {error} Nothing was changed.") from error
        for section in sorted({*report.changed, *report.unchanged}):
            changed, unchanged = report.changed.get(section, 0), report.unchanged.get(section, 0)
            self.stdout.write(f"{section}: {changed} changed, {unchanged} unchanged")
