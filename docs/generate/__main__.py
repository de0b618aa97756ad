"""`python -m docs.generate [--check] [FOLDER]`: write the pages of docs/reference that come from the code."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import django

from portal.settings import env


def main(arguments: Namespace) -> int:
    """Write what differs, or only print it; 1 where a page differs and nothing may be changed."""
    # The pages read models and routes, so the applications come first.
    from docs.generate import reference  # noqa: PLC0415

    if arguments.check:
        differing = reference.differences(arguments.folder)
        if differing:
            say(f"These pages differ from the code: {', '.join(differing)}. Run `make docs`.")
        return int(bool(differing))
    for name in reference.write(arguments.folder):
        say(f"wrote {arguments.folder / name}")
    return 0


def parsed() -> Namespace:
    parser = ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=env.BASE_DIR / "docs" / "reference")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page differs")
    return parser.parse_args()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    env.set_variables({"DJANGO_SETTINGS_MODULE": "portal.settings"})
    django.setup()
    sys.exit(main(parsed()))
