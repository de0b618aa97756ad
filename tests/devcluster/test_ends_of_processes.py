"""The exit code of a container that ends just before devcluster signals it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from devcluster.kubelet.container import Container
from devcluster.kubelet.logs import LogFile


class Sandbox:
    def __init__(self, home):
        self.home = home


async def exit_code_of(container: Container, code: int, number: signal.Signals) -> int:
    """Signal a process that has ended, before the event loop has noticed; return the exit code that is reported."""
    gate = container._sandbox.home / "gate"
    os.mkfifo(gate)
    container._argv = [sys.executable, "-c", f"open({str(gate)!r}).read(); raise SystemExit({code})"]
    container._env, container._folder = dict(os.environ), "."  # noqa: TID251
    container.log = LogFile(gate.with_name("log"))
    container.process = await container._spawn(container._argv)
    container.state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    gate.open("w").close()
    # This blocks the event loop, and WNOWAIT leaves the exit status for it to read.
    os.waitid(os.P_PID, container.process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    container.signal(number)
    return await container.finish()


@contextmanager
def runner() -> Iterator[asyncio.Runner]:
    """An event loop that watches children as devcluster's does, without a thread for each."""
    with asyncio.Runner() as runner:
        if sys.version_info < (3, 12):
            watcher = asyncio.PidfdChildWatcher()
            watcher.attach_loop(runner.get_loop())
            asyncio.set_child_watcher(watcher)
        try:
            yield runner
        finally:
            if sys.version_info < (3, 12):
                asyncio.set_child_watcher(None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("code", [0, 7])
def test_a_late_signal_does_not_change_the_exit_code(tmp_path, number, code):
    container = Container({"name": "main", "image": "any:1"}, Sandbox(tmp_path))
    with runner() as running:
        assert running.run(exit_code_of(container, code, number)) == code
    assert container.ended["reason"] == ("Error" if code else "Completed")
