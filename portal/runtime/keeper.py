"""Embedded servers for as long as another process lives: tests and benchmarks start one when they need it.

    python -m portal.runtime.keeper --owner PID FOLDER

The servers are not durable. `FOLDER/ready` appears once both answer; SIGTERM or the end of PID, in whatever
way, ends them. The end of this process, in whatever way, ends them too (portal.runtime.guard).
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from pathlib import Path

from portal.folders import Folders
from portal.runtime import children, postgres, valkey

READY = "ready"
START_SECONDS = 60.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="keeper")
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    folders = Folders(options.folder)
    try:
        owner = os.pidfd_open(options.owner)
    except ProcessLookupError:
        return 0
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    servers = _start(folders)
    try:
        (options.folder / READY).touch()
        select.select([owner, woken], [], [])
    finally:
        for server in reversed(servers):
            server.stop()
    return 0


def _start(folders: Folders) -> list[children.Child]:
    postgres.prepare(folders, durable=False)
    valkey.prepare(folders)
    commands = {"postgres": postgres.command(folders, durable=False), "valkey": valkey.command(folders)}
    started = [
        children.start(name=name, command=command, log=folders.logs / f"{name}.log", echo=_quiet)
        for name, command in commands.items()
    ]
    for server, ready in zip(started, (postgres.is_ready, valkey.is_ready), strict=True):
        if not children.wait_until(
            lambda ready=ready: ready(folders),  # type: ignore[misc]
            seconds=START_SECONDS,
            alive=lambda server=server: server.poll() is None,  # type: ignore[misc]
        ):
            print(f"{server.name} did not start:", *server.tail, sep="\n  ", file=sys.stderr)  # noqa: T201
            sys.exit(1)
    return started


def _quiet(_name: str, _line: str) -> None:
    """The servers' output is in their log files."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
