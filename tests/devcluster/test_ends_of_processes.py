"""How a container's process ended, when it is told to end in the same moment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from devcluster.kubelet.container import Container
from devcluster.kubelet.logs import LogFile


async def exit_code_of(container: Container, code: str, number: signal.Signals) -> int:
    """Of a process that has ended already, and that devcluster signals before it has heard so."""
    container._argv = [sys.executable, "-c", code]
    container._env, container._folder = dict(os.environ), "."  # noqa: TID251
    container.log = LogFile(container._sandbox.home / "log")
    container.process = await container._spawn(container._argv)
    container.state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    # Nothing else happens on the loop meanwhile, and what is waited for so stays to be read.
    os.waitid(os.P_PID, container.process.pid, os.WEXITED | os.WNOWAIT)
    container.signal(number)
    return await container.finish()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("code", [0, 7])
def test_a_signal_that_comes_too_late_takes_nothing_from_the_exit_code(tmp_path, number, code):
    class Sandbox:
        home = tmp_path

    container = Container({"name": "main", "image": "any:1"}, Sandbox())
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        if sys.version_info < (3, 12):
            watcher = asyncio.PidfdChildWatcher()
            watcher.attach_loop(loop)
            asyncio.set_child_watcher(watcher)
        try:
            assert runner.run(exit_code_of(container, f"raise SystemExit({code})", number)) == code
        finally:
            if sys.version_info < (3, 12):
                asyncio.set_child_watcher(None)
    assert container.ended["reason"] == ("Error" if code else "Completed")
