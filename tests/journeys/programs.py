"""What the journeys run: programs of nothing but Python, which devcluster starts as real processes."""

from __future__ import annotations

import shlex

IMAGE = "python:3.13"
STEPS = 6


def lines(*arguments: str) -> str:
    """A command as the form takes it, an argument a line."""
    return "\n".join(arguments)


COUNTS = shlex.join(
    [
        "python",
        "-u",
        "-c",
        f"import time; [(print('step', i), time.sleep(1)) for i in range({STEPS})]; print('all done')",
    ]
)
"""Writes a line a second, so that there is something to watch; as one line, the way people paste it."""
ENDS = lines("python", "-c", "print('hello')")
STAYS = lines("python", "-c", "import time; time.sleep(900)")
MIB = 2**20
FILLS = lines(
    "python", "-c", f"import time; held = b'x' * (300 * {MIB}); time.sleep(3); print('held', len(held))"
)
"""Holds 300 MiB for a while."""
SERVES = "python -m http.server --bind 0.0.0.0 8080"
