"""Kills what pods leave behind when devcluster itself is killed: their children know nothing of its end.

Runs as a process of its own and waits for its standard input to close, which happens however devcluster ends.
A process belongs to a pod when its home or working directory is below the pods' folder, or one of its session is so.
The session of devcluster itself, which is that of the terminal or the script that started it, is never taken for a pod's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def sessions() -> dict[int, int]:
    """Session of every process."""
    by_pid = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError):
                by_pid[int(entry)] = os.getsid(int(entry))
    return by_pid


def sweep(folder: str, *, spared: int) -> None:
    """Kill all sessions that have a process working below `folder`; of the session `spared` that process alone."""
    every, pids = sessions(), set()
    for pid in every:
        with contextlib.suppress(OSError):
            where = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                home = f"HOME={folder}/".encode() in file.read()
            if home or where.startswith(folder + "/"):
                pids.add(pid)
    doomed = {every[pid] for pid in pids} - {spared, os.getsid(0)}
    for pid, session in every.items():
        if session in doomed or pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def main() -> None:
    """argv: the pods' folder, then the session of devcluster."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    sweep(sys.argv[1], spared=int(sys.argv[2]))


if __name__ == "__main__":
    main()
