"""Pods by the clock: nothing runs, the first container's `BED_*` environment or the pod's annotations say what happens.

The words and the shapes are those of the real test cluster's stages, so that one contract suite fits both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiohttp import web
from typing_extensions import override

from devcluster.cluster import Cluster
from devcluster.kinds import POD
from devcluster.objects import Obj, annotations_of, deleting, finished, started, timestamp, uid_of

from .base import Kubelet
from .logs import LogFile, serve_log
from .statuses import container_status, ended_conditions, ready_conditions, terminated, waiting, without_image

_ANNOTATIONS = {
    "BED_START_SECONDS": "realcluster/start-seconds", "BED_RUN_SECONDS": "realcluster/run-seconds",
    "BED_EXIT_CODE": "realcluster/exit-code", "BED_OOM": "realcluster/oom-killed",
}  # fmt: skip


def knob(pod: Obj, name: str) -> str | None:
    annotation = annotations_of(pod).get(_ANNOTATIONS.get(name, ""))
    env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0].get("env") or ()}
    first, second = (annotation, env.get(name))
    if name in {"BED_EXIT_CODE", "BED_OOM"}:
        first, second = second, first
    return first if first is not None else second


class ClockKubelet(Kubelet):
    """Keeps one timer a pod."""

    def __init__(self, cluster: Cluster, data: Path) -> None:
        super().__init__(cluster)
        path = data / "pod.log"
        path.unlink(missing_ok=True)
        self._log = LogFile(path)
        self._log.write(b"".join(b"line %d of the pod log\n" % n for n in (1, 2, 3)))
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._serial = 0

    @override
    def sync(self, pod: Obj) -> None:
        status = pod.get("status", {})
        if deleting(pod):
            self._after(pod, "stop", float(knob(pod, "BED_STOP_SECONDS") or 0), self._stop)
        elif not started(pod):
            self._begin(pod)
        elif finished(pod) or _waiting(pod) == "ImagePullBackOff":
            return
        elif status["phase"] == "Pending":
            self._after(pod, "start", float(knob(pod, "BED_START_SECONDS") or 0), self._run)
        elif knob(pod, "BED_RUN_SECONDS") is not None:
            self._after(pod, "end", float(knob(pod, "BED_RUN_SECONDS") or 0), self._end)

    @override
    def gone(self, pod: Obj) -> None:
        for step in ("start", "end", "stop"):
            timer = self._timers.pop((uid_of(pod), step), None)
            if timer is not None:
                timer.cancel()

    @override
    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    @override
    async def log(self, request: web.Request, pod: Obj) -> web.StreamResponse:
        source = self._log.path if finished(pod) else self._log
        files = (
            {c["name"]: source for c in pod["spec"]["containers"]} if "podIP" in pod.get("status", {}) else {}
        )
        return await serve_log(request, pod, files)

    def _after(self, pod: Obj, step: str, delay: float, action: Callable[[Obj], None]) -> None:
        """One appointment a step; after a restart of devcluster the wait begins again."""
        key = (uid_of(pod), step)
        if key not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(delay, self._due, pod, action)

    def _due(self, pod: Obj, action: Callable[[Obj], None]) -> None:
        live = self.cluster.store.newest(POD, pod)
        if live is not None and self.reachable(live):
            action(live)

    def _begin(self, pod: Obj) -> None:
        creating = [container_status(c, waiting("ContainerCreating")) for c in pod["spec"]["containers"]]
        self.report(
            pod, startTime=timestamp(), hostIP="127.0.0.1", containerStatuses=without_image(pod) or creating
        )

    def _run(self, pod: Obj) -> None:
        if deleting(pod):
            return
        now = timestamp()
        self._serial += 1
        address = f"10.244.{self._serial >> 8 & 255}.{self._serial & 255}"
        running, done = {"running": {"startedAt": now}}, terminated(0, "Completed", now)
        self.report(
            pod, phase="Running", podIP=address, podIPs=[{"ip": address}], conditions=ready_conditions(),
            containerStatuses=[_played(c, running, ready=True) for c in pod["spec"]["containers"]],
            initContainerStatuses=[_played(c, done, ready=True) for c in pod["spec"].get("initContainers") or ()],
        )  # fmt: skip

    def _end(self, pod: Obj) -> None:
        if knob(pod, "BED_OOM") == "true":
            self._finish(pod, 137, "OOMKilled")
        else:
            code = int(knob(pod, "BED_EXIT_CODE") or 0)
            self._finish(pod, code, "Error" if code else "Completed")

    def _stop(self, pod: Obj) -> None:
        if not finished(pod):
            self._finish(pod, 143, "Error")
        self.release(pod)

    def _finish(self, pod: Obj, code: int, reason: str) -> None:
        containers, before = pod["spec"]["containers"], pod["status"].get("containerStatuses", ())
        since = [was["state"].get("running", {}).get("startedAt", timestamp()) for was in before]
        states = [terminated(code, reason, began) for began in since]
        statuses = [_played(c, state, ready=False) for c, state in zip(containers, states, strict=False)]
        phase = "Failed" if code else "Succeeded"
        self.report(pod, phase=phase, containerStatuses=statuses, conditions=ended_conditions(phase))


def _waiting(pod: Obj) -> str:
    statuses = pod["status"].get("containerStatuses") or [{}]
    return str(statuses[0].get("state", {}).get("waiting", {}).get("reason", ""))


def _played(container: Obj, state: Obj, *, ready: bool) -> Obj:
    return container_status(container, state, f"{container['image']}@sha256:{0:064d}", ready=ready)
