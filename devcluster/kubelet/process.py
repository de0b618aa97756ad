"""Pods as local processes: no image, no root, no namespaces, but real commands, exit codes, logs and signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import sys
from pathlib import Path

import aiohttp
from aiohttp import web
from typing_extensions import override

from devcluster.cluster import Cluster
from devcluster.evict import mark_disrupted
from devcluster.kinds import POD
from devcluster.objects import Obj, containers_of, deleting, finished, started, timestamp, uid_of

from . import guard
from .base import Kubelet
from .container import Container
from .logs import LogFile, serve_log
from .pod import PodRunner
from .sandbox import Sandbox
from .statuses import ended_conditions, terminated, without_image
from .usage import CpuMeter, Usage

SAMPLE_SECONDS = 1.0
METER_SECONDS = 3.0
_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."


class ProcessKubelet(Kubelet):
    """Keeps a runner for every pod that is stored."""

    def __init__(self, cluster: Cluster, data: Path) -> None:
        super().__init__(cluster)
        self._data = data.resolve()
        self._runners: dict[str, PodRunner] = {}
        # Two devclusters on one machine should not meet on the loopback net.
        self._network = (random.randrange(1, 255), random.randrange(0, 255))  # noqa: S311
        self._serial = 0
        self._http: aiohttp.ClientSession | None = None
        self._sampler: asyncio.Task[None] | None = None
        self._meter = CpuMeter()
        self._metering: asyncio.Task[None] | None = None
        self._guard: asyncio.subprocess.Process | None = None

    @override
    def start(self) -> None:
        guard.sweep(str(self._data / "pods"), spared=os.getsid(0))
        for pod in self.cluster.store.list(POD):
            if not finished(pod) and started(pod):
                self._found_dead(pod)
        self._metering = asyncio.create_task(self._read_meter())
        super().start()

    def _found_dead(self, pod: Obj) -> None:
        """Its processes ended with the devcluster of before: say so as a node shutdown does."""
        statuses = []
        for status in pod["status"].get("containerStatuses", ()):
            state = status["state"]
            if "terminated" not in state:
                since = state.get("running", {}).get("startedAt", pod["status"]["startTime"])
                state = terminated(137, "Error", since)
            statuses.append(status | {"state": state, "ready": False, "started": False})
        mark_disrupted(self.cluster, pod, "TerminationByKubelet", _SHUTDOWN)
        self.report(
            pod, phase="Failed", reason="Terminated", message=_SHUTDOWN, containerStatuses=statuses,
            conditions=ended_conditions("Failed"),
        )  # fmt: skip

    @override
    def sync(self, pod: Obj) -> None:
        runner = self._runners.get(uid_of(pod))
        if finished(pod) or (runner is None and deleting(pod)):
            if deleting(pod):
                self.release(pod)
        elif runner is None:
            self._begin(pod)
        elif deleting(pod):
            runner.stop(float(pod["metadata"].get("deletionGracePeriodSeconds", 0)))

    def _begin(self, pod: Obj) -> None:
        if statuses := without_image(pod):
            if not started(pod):
                self.report(pod, startTime=timestamp(), containerStatuses=statuses)
            return
        self._serial += 1
        second, third = self._network
        third, last = (third + self._serial // 250) % 255, self._serial % 250 + 2
        sandbox = Sandbox(self.cluster, self._data, pod, f"127.{second}.{third}.{last}")
        self._runners[uid_of(pod)] = PodRunner(self, pod, sandbox, self._session)
        if any(c.memory_limit for c in self._runners[uid_of(pod)].all) and self._sampler is None:
            self._sampler = asyncio.create_task(self._sample())
        if self._guard is None:
            self._guard_task = asyncio.create_task(self._start_guard())

    async def _start_guard(self) -> None:
        self._guard = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", guard.__file__, str(self._data / "pods"), str(os.getsid(0)), env={},
            stdin=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession()
        return self._http

    @override
    def gone(self, pod: Obj) -> None:
        runner = self._runners.pop(uid_of(pod), None)
        if runner is not None:
            runner.kill()
            runner.sandbox.remove()
        else:
            Sandbox(self.cluster, self._data, pod, "").remove()

    @override
    async def log(self, request: web.Request, pod: Obj) -> web.StreamResponse:
        runner, home = self._runners.get(uid_of(pod)), self._data / "pods" / uid_of(pod)
        files: dict[str, LogFile | Path] = {
            c["name"]: home / f"{c['name']}.log" for c in containers_of(pod["spec"])
        }
        for container in runner.all if runner else ():
            if container.log is not None:
                files[container.name] = container.log
        return await serve_log(request, pod, files)

    @override
    async def stop(self) -> None:
        tasks = [r.task for r in self._runners.values()]
        for runner in self._runners.values():
            runner.kill()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in (self._sampler, self._metering):
            if task is not None:
                task.cancel()
        if self._http is not None:
            await self._http.close()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            await self._guard.wait()

    # CPU

    async def _read_meter(self) -> None:
        while True:
            await asyncio.sleep(METER_SECONDS)
            self._meter.read({
                (uid, c.name): c.process.pid
                for uid, runner in self._runners.items() for c in runner.containers if c.process is not None
            })  # fmt: skip

    @override
    def usage(self, pod: Obj, container: str = "") -> Usage | None:
        names = [container] if container else [spec["name"] for spec in pod["spec"]["containers"]]
        usages = [self._meter.usage((uid_of(pod), name)) for name in names]
        known = [usage for usage in usages if usage is not None]
        if not known or len(known) < len(usages):
            return None
        return Usage(sum(u.cores for u in known), sum(u.resident for u in known))

    # Memory

    async def _sample(self) -> None:
        """Kill what is over its limit; runs only while something has one."""
        while True:
            limited = [
                c for r in self._runners.values() for c in r.all if c.memory_limit and not (r.task.done() or c.ended)
            ]  # fmt: skip
            if not limited:
                break
            self._kill_largest(limited)
            await asyncio.sleep(SAMPLE_SECONDS)
        self._sampler = None

    @staticmethod
    def _kill_largest(limited: list[Container]) -> None:
        running = {c.process.pid: c for c in limited if c.process is not None}
        used = dict.fromkeys(running, 0)
        for pid, session in guard.sessions().items() if running else ():
            if session in used:
                used[session] += _private_bytes(pid)
        for leader, container in running.items():
            if used[leader] > container.memory_limit:
                container.oom = True
                container.signal(signal.SIGKILL)


def _private_bytes(pid: int) -> int:
    """What one process holds for itself; pages that it shares are not counted."""
    with contextlib.suppress(OSError, ValueError):
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
    return 0
