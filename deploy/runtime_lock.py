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
    names = {re.split(r"[=\[ ]", block, maxsplit=1)[0]: [] for block in blocks}
    for block in blocks:
        names[re.split(r"[=\[ ]", block, maxsplit=1)[0]] += re.findall(
            r"^ +# +(?:via )?(\S.*)$", block, re.MULTILINE
        )
    wanted: set[str] = set()
    while True:
        more = {name for name, by in names.items() if PROJECT in by or wanted.intersection(by)} - wanted
        if not more:
            break
        wanted |= more
    return "\n".join(block for block in blocks if re.split(r"[=\[ ]", block, maxsplit=1)[0] in wanted) + "\n"


if __name__ == "__main__":
    sys.stdout.write(runtime((ROOT / "requirements.lock").read_text(encoding="utf-8")))
