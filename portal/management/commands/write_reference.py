from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from portal import reference
from portal.settings import env


class Command(BaseCommand):
    help = "Write the pages of docs/reference that come from the code; --check only says whether they differ."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        default = env.BASE_DIR / "docs" / "reference"
        parser.add_argument("folder", nargs="?", type=Path, default=default)
        parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page differs")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"]
        if not options["check"]:
            for name in reference.write(folder):
                self.stdout.write(f"wrote {folder / name}")
            return
        differing = reference.differences(folder)
        if differing:
            raise CommandError(f"These pages differ from the code: {', '.join(differing)}. Run `make docs`.")
