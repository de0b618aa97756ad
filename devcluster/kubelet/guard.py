"""Kills what pods leave behind when devcluster itself is killed: their children know nothing of its end.

Runs as a process of its own and waits for its standard input to close, which happens however devcluster ends.
A process belongs to a pod when its home or working directory is below the pods' folder, or one of its session is so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def sessions() -> dict[int, int]:
    """Session of every process."""
    found = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError):
                found[int(entry)] = os.getsid(int(entry))
    return found


def sweep(folder: str) -> None:
    """Kill all sessions that have a process working below `folder`."""
    every, doomed = sessions(), set()
    for pid, session in every.items():
        with contextlib.suppress(OSError):
            where = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                home = f"HOME={folder}/".encode() in file.read()
            if home or where.startswith(folder + "/"):
                doomed.add(session)
    for pid, session in every.items():
        if session in doomed and session != os.getsid(0):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    sweep(sys.argv[1])


if __name__ == "__main__":
    main()
