#!/usr/bin/env python
"""The command line of the portal: `manage.py help` lists the commands."""

from __future__ import annotations

import os
import sys

from django.core.exceptions import ImproperlyConfigured


def main() -> None:
    try:
        _run()
    except ImproperlyConfigured as problem:
        sys.exit(f"manage.py: {problem}")


def _run() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")  # noqa: TID251
    # These stay small by not loading the applications.
    if sys.argv[1:2] == ["up"]:
        from portal.runtime import up

        sys.exit(up.main(sys.argv[2:]))
    if sys.argv[1:2] == ["beat"]:
        from portal.runtime import beat

        sys.exit(beat.main(sys.argv[2:]))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
