"""Starts a container's command: tied to devcluster's life, and the kernel's first choice to kill.

Run as a script by path with `-I -S`, so that it imports nothing of the environment that it is about to replace.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
CANNOT_START = 127


def main() -> None:
    """argv: the parent's pid, the working directory, then the command; the environment is already the container's."""
    parent, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(CANNOT_START)
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:  # noqa: PTH123
            score.write("900")
    except OSError:
        pass  # Only a wish.
    try:
        os.chdir(folder)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        print(f"exec: {command[0]!r}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
