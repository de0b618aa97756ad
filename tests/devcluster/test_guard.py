"""What is killed with devcluster: all of its pods, and nothing of whoever started it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from devcluster.kubelet import guard
from devcluster.kubelet.container import Container

SLEEPS = "import time; print('up', flush=True); time.sleep(1000)"
STARTS_ONE = (
    "import os, subprocess, sys, time\n"
    f"command = [sys.executable, '-c', {SLEEPS!r}]\n"
    "child = subprocess.Popen(command, env={'HOME': sys.argv[1]}, stdout=subprocess.PIPE)\n"
    "child.stdout.readline(); print(child.pid, flush=True); child.wait(); print('alone', flush=True); time.sleep(1000)"
)


@pytest.fixture
def starter(tmp_path):
    """A session in which a process has a pod's home: a script, and what devcluster is about to make a pod of."""
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path / "pods" / "uid")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        yield process
        process.kill()


def run_guard(tmp_path, spared):
    command = [sys.executable, "-I", "-S", guard.__file__, str(tmp_path / "pods"), str(spared)]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, start_new_session=True, timeout=30)


def test_the_session_that_started_devcluster_outlives_it_and_the_pod_does_not(starter, tmp_path):
    assert starter.stdout is not None
    starter.stdout.readline()
    run_guard(tmp_path, starter.pid)
    assert starter.stdout.readline() == "alone\n"
    assert starter.poll() is None


def test_a_session_of_a_pod_ends_whole(starter, tmp_path):
    assert starter.stdout is not None
    starter.stdout.readline()
    run_guard(tmp_path, os.getsid(0))
    assert starter.wait(30) == -9


def test_a_container_is_alone_in_its_session_before_it_has_a_pods_home(tmp_path):
    async def session_at_first() -> tuple[int, int]:
        container = Container({"name": "main", "image": "any:1"}, None)
        container._folder, container._env = str(tmp_path), {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}  # noqa: TID251
        process = await container._spawn(["sleep", "1000"])
        session = os.getsid(process.pid)
        process.kill()
        await process.wait()
        return session, process.pid

    session, pid = asyncio.run(session_at_first())
    assert session == pid
