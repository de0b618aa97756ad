"""Looking at /proc: which processes belong to a folder or carry a mark."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

MARK = "PORTAL_TEST_MARK"
_LISTENS = "0A"


def processes_of(folder: Path, mark: str) -> dict[int, str]:
    """By id, the command lines of living processes that were started with the mark or work in the folder.

    Servers that rename themselves overwrite their environment, hence the second way.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes() or _inside(
                entry, folder, command
            ):
                found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended while we looked
    return {pid: command for pid, command in found.items() if command}


def _inside(entry: Path, folder: Path, command: bytes) -> bool:
    here = (entry / "cwd").readlink()
    return here == folder or folder in here.parents or os.fsencode(folder) in command


def ports_of(pids: Collection[int]) -> set[int]:
    """The TCP ports on which one of them listens."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):  # it ended while we looked
            for link in (Path("/proc") / str(pid) / "fd").iterdir():
                with suppress(OSError):  # it was closed while we looked
                    inodes.add(str(link.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENS and f"socket:[{inode}]" in inodes:
                found.add(int(local.rpartition(":")[2], 16))
    return found
