"""Prints the part of requirements.lock that the portal needs at run time: `python deploy/runtime_lock.py`.

There is one lock file. Its `# via` notes say who wants a package, so the tools of development are left out by
following them from the project's own dependencies.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "ml-platform-portal (pyproject.toml)"


def runtime(lock: str) -> str:
    """The blocks of packages that are wanted by the project itself, or by such a package."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    wanted_by: dict[str, set[str]] = {}
    for block in blocks:
        found = re.findall(r"^ +# +(?:via )?(\S.*)$", block, re.MULTILINE)
        wanted_by.setdefault(_name(block), set()).update(found)
    wanted: set[str] = set()
    while True:
        more = {name for name, by in wanted_by.items() if by & {PROJECT, *wanted}} - wanted
        if not more:
            break
        wanted |= more
    return "\n".join(block for block in blocks if _name(block) in wanted) + "\n"


def _name(block: str) -> str:
    return re.split(r"[=\[ ]", block, maxsplit=1)[0]


if __name__ == "__main__":
    sys.stdout.write(runtime((ROOT / "requirements.lock").read_text(encoding="utf-8")))
