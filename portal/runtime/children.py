"""One child process: started under the guard, its output kept, prefixed and bounded, ended by signals."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

GUARD = Path(__file__).with_name("guard.py")
LOG_BYTES_MAX = 5 * 1024 * 1024
TAIL_LINES = 12
_POLL_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class ChildCommand:
    """What to run, and how it is ended."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] | None = None
    folder: Path | None = None
    user: str = ""
    pass_fds: tuple[int, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    orphan_signal: signal.Signals = signal.SIGKILL


class LogFile:
    """Appends lines to a file; when it is full, the file becomes `NAME.1` and a new one is begun."""

    def __init__(self, path: Path, *, bytes_max: int = LOG_BYTES_MAX) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self._bytes_max = bytes_max
        self._file = path.open("ab", buffering=0)

    def write(self, line: bytes) -> None:
        if self._file.tell() + len(line) > self._bytes_max:
            self._file.close()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file = self._path.open("ab", buffering=0)
        self._file.write(line)

    def close(self) -> None:
        self._file.close()


@dataclass(kw_only=True)
class Child:
    """A started command. Must be started by the main thread: the kernel watches the starting thread's end."""

    name: str
    command: ChildCommand
    process: subprocess.Popen[bytes]
    log: LogFile | None
    echo: Callable[[str, str], None]
    tail: list[str] = field(default_factory=list)
    pump: threading.Thread | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs."""
        return self.process.poll()

    def signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """True once it has ended, False if it still runs after `seconds`."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ask, wait, then kill; returns when it has ended and its output is written."""
        self.signal(self.command.stop_signal)
        if not self.wait(self.command.stop_seconds):
            self.echo(self.name, f"does not end after {self.command.stop_seconds:.0f} s, killed")
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        if self.pump is not None:
            # A grandchild that outlives its parent may hold the pipe open; it must not hold us.
            self.pump.join(timeout=2)
        if self.log is not None:
            self.log.close()


def start(*, name: str, command: ChildCommand, log: Path | None, echo: Callable[[str, str], None]) -> Child:
    """Start `command` so that it dies with this process. Raises OSError when it cannot be started at all.

    `log` None: its output is shown and kept nowhere, for what prints a secret.
    """
    guard = [sys.executable, "-IS", str(GUARD), "--signal", command.orphan_signal.name]
    guard += ["--parent", str(os.getpid())]
    if command.user:
        guard += ["--user", command.user]
    process = subprocess.Popen(
        [*guard, "--", *command.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=command.folder,
        env=None if command.environment is None else dict(command.environment),
        pass_fds=command.pass_fds,
        # Ctrl-C of the terminal must reach the supervisor alone: it ends its children in order.
        start_new_session=True,
    )
    child = Child(name=name, command=command, process=process, log=LogFile(log) if log else None, echo=echo)
    assert process.stdout is not None  # noqa: S101 (a pipe was asked for)
    child.pump = threading.Thread(target=_pump, args=(process.stdout, child), name=f"log-{name}", daemon=True)
    child.pump.start()
    return child


def wait_until(ready: Callable[[], bool], *, seconds: float, alive: Callable[[], bool]) -> bool:
    """Poll `ready` until it holds; False when `alive` no longer does or the time is over."""
    deadline = time.monotonic() + seconds
    while not ready():
        if not alive() or time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _pump(stream: IO[bytes], child: Child) -> None:
    for line in _lines(stream):
        # A full disk, or closed at the end: the process itself goes on.
        with contextlib.suppress(OSError, ValueError):
            if child.log is not None:
                child.log.write(line)
        text = _CONTROL.sub("", line.decode(errors="replace").rstrip())
        child.tail[:] = [*child.tail[1 - TAIL_LINES :], text]
        child.echo(child.name, text)
    stream.close()


def _lines(stream: IO[bytes]) -> Iterable[bytes]:
    return iter(lambda: stream.readline(64 * 1024), b"")
