"""One pod's life: volumes, init containers, containers with restarts and probes, and its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp

from devcluster.kinds import POD
from devcluster.objects import Obj, made_condition, name_of, namespace_of, timestamp, uid_of

from .base import Kubelet
from .container import Container
from .sandbox import NotReady, Sandbox, Unresolved
from .statuses import ended_conditions

RETRY_SECONDS = 1.0
LONGEST_BACKOFF = 30


class PodRunner:
    """Runs in one task; `stop` and `kill` are the ways in from outside."""

    def __init__(
        self, kubelet: Kubelet, pod: Obj, sandbox: Sandbox, session: Callable[[], aiohttp.ClientSession]
    ) -> None:
        self._kubelet, self.pod, self.sandbox, self._session = kubelet, pod, sandbox, session
        self.inits = [Container(c, sandbox) for c in pod["spec"].get("initContainers") or ()]
        self.containers = [Container(c, sandbox) for c in pod["spec"]["containers"]]
        self._policy = pod["spec"]["restartPolicy"]
        self._initialized = False
        self._stopping = asyncio.Event()
        self._grace: float | None = None
        self._stopper: asyncio.Task[None] | None = None
        self.task = asyncio.create_task(self._run())

    @property
    def all(self) -> list[Container]:
        return [*self.inits, *self.containers]

    # From outside

    def stop(self, grace: float) -> None:
        """TERM now, KILL after `grace`; a shorter grace than before counts."""
        if self._grace is not None and grace >= self._grace:
            return
        self._grace = grace
        self._stopping.set()
        if self._stopper is not None:
            self._stopper.cancel()
        self._stopper = asyncio.create_task(self._stop(grace))

    async def _stop(self, grace: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        for container in self.all:
            if container.process is not None:
                self._event("Killing", f"Stopping container {container.name}")
        await asyncio.gather(*(self._stop_one(c, grace) for c in self.all))
        await asyncio.sleep(max(0.0, deadline - loop.time()))
        for container in self.all:
            container.signal(signal.SIGKILL)

    @staticmethod
    async def _stop_one(container: Container, grace: float) -> None:
        await container.before_stop(grace)
        container.signal(signal.SIGTERM)

    def kill(self) -> None:
        """At once, without a word to the API."""
        self._stopping.set()
        self.task.cancel()
        if self._stopper is not None:
            self._stopper.cancel()
        for container in self.all:
            container.signal(signal.SIGKILL)
            if container.log is not None and not container.log.closed:
                container.log.close()

    # The life

    async def _run(self) -> None:
        self._kubelet.report(
            self.pod, startTime=timestamp(), hostIP="127.0.0.1", podIP=self.sandbox.address,
            podIPs=[{"ip": self.sandbox.address}],
        )  # fmt: skip
        self.report()
        if await self._until_configured(self.sandbox.prepare, "ContainerCreating"):
            initialized = True
            for container in self.inits:
                initialized = initialized and await self._init(container)
            if initialized and not self._stopping.is_set():
                self._initialized = True
                await asyncio.gather(*(self._keep(c) for c in self.containers))
        self._finish()

    async def _until_configured(
        self, action: Callable[[], None], reason: str, container: Container | None = None
    ) -> bool:
        """Try until `action` no longer misses anything; False when the pod is stopped meanwhile."""
        while not self._stopping.is_set():
            try:
                action()
                return True
            except Unresolved as error:
                why = ("ContainerCreating", str(error))
            except NotReady as error:
                why = (reason, str(error) if container else "")
                self._event("Failed" if container else "FailedMount", f"Error: {error}", warning=True)
            for one in [container] if container else self.all:
                one.wait(*why)
            self.report()
            await self._pause(RETRY_SECONDS)
        return False

    async def _pause(self, delay: float) -> None:
        try:
            async with asyncio.timeout(delay):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _init(self, container: Container) -> bool:
        """An init container has to succeed once."""
        restart = "Never" if self._policy == "Never" else "OnFailure"
        await self._loop(container, restart, probed=False)
        return container.ended is not None and container.ended["exitCode"] == 0

    async def _keep(self, container: Container) -> None:
        await self._loop(container, self._policy, probed=True)

    async def _loop(self, container: Container, policy: str, *, probed: bool) -> None:
        backoff = self._kubelet.cluster.backoff
        while await self._until_configured(container.configure, "CreateContainerConfigError", container):
            code = await self._once(container, probed=probed)
            self.report()
            if policy == "Never" or (policy == "OnFailure" and not code) or self._stopping.is_set():
                return
            container.last, container.restarts = container.state, container.restarts + 1
            who = f"{name_of(self.pod)}_{namespace_of(self.pod)}({uid_of(self.pod)})"
            text = f"back-off {backoff:.0f}s restarting failed container={container.name} pod={who}"
            container.wait("CrashLoopBackOff", text)
            text = f"Back-off restarting failed container {container.name} in pod {who}"
            self._event("BackOff", text, warning=True)
            self.report()
            await self._pause(backoff)
            backoff = min(backoff * 2, LONGEST_BACKOFF * self._kubelet.cluster.backoff)

    async def _once(self, container: Container, *, probed: bool) -> int:
        if not await container.start():
            code: int = container.state["terminated"]["exitCode"]
            self._event("Failed", f"Error: {container.state['terminated']['message']}", warning=True)
            return code
        self._event("Started", f"Container started: {container.name}")
        probing = asyncio.create_task(self._probes(container)) if probed else None
        if not probed:
            self.report()
        try:
            return await container.finish()
        finally:
            if probing is not None:
                probing.cancel()

    async def _probes(self, container: Container) -> None:
        spec = container.spec
        container.started = "startupProbe" not in spec
        container.ready = container.started and "readinessProbe" not in spec
        self.report()
        if not container.started:
            await self._probe(container, "startupProbe", "Startup", self._started)
        lasting: list[Coroutine[Any, Any, None]] = []
        if "readinessProbe" in spec:
            lasting.append(self._probe(container, "readinessProbe", "Readiness", self._set_ready))
        if "livenessProbe" in spec:
            lasting.append(
                self._probe(container, "livenessProbe", "Liveness", lambda _container, _good: True)
            )
        await asyncio.gather(*lasting)

    def _started(self, container: Container, good: bool) -> bool:  # noqa: FBT001
        if good:
            container.started = True
            self._set_ready(container, "readinessProbe" not in container.spec)
        return not good

    def _set_ready(self, container: Container, good: bool) -> bool:  # noqa: FBT001
        if container.ready != good:
            container.ready = good
            self.report()
        return True

    async def _probe(
        self, container: Container, key: str, word: str, is_enough: Callable[[Container, bool], bool]
    ) -> None:
        """Probe for ever, or until `is_enough` says so; too many failures end a container that is not just unready."""
        probe, in_row, last = container.spec[key], 0, None
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        while True:
            problem = await container.probe(probe, self._session())
            in_row = in_row + 1 if last == (not problem) else 1
            last = not problem
            if problem:
                self._event("Unhealthy", f"{word} probe failed: {problem}", warning=True)
            if in_row >= probe["successThreshold" if last else "failureThreshold"]:
                if not last and key != "readinessProbe":
                    text = f"Container {container.name} failed {word.lower()} probe, will be restarted"
                    self._event("Killing", text)
                    container.signal(signal.SIGTERM)
                    await asyncio.sleep(self.pod["spec"]["terminationGracePeriodSeconds"])
                    container.signal(signal.SIGKILL)
                    return
                if not is_enough(container, last):
                    return
            await asyncio.sleep(probe["periodSeconds"])

    # Status

    def report(self) -> None:
        ready = all(c.ready for c in self.containers)
        begun = self._initialized and any(c.running or c.restarts or c.ended for c in self.containers)
        states = {
            "PodReadyToStartContainers": (True, ""), "Initialized": (self._initialized, "ContainersNotInitialized"),
            "ContainersReady": (ready, "ContainersNotReady"), "Ready": (ready, "ContainersNotReady"),
        }  # fmt: skip
        conditions = [made_condition(t, str(good), "" if good else why) for t, (good, why) in states.items()]
        for container in self.containers if self.inits and not self._initialized else ():
            container.wait("PodInitializing")
        self._kubelet.report(
            self.pod, phase="Running" if begun else "Pending", conditions=conditions,
            containerStatuses=[c.status() for c in self.containers],
            **({"initContainerStatuses": [c.status() for c in self.inits]} if self.inits else {}),
        )  # fmt: skip

    def _finish(self) -> None:
        ends = [c.ended for c in self.all]
        good = all(e is not None and e["exitCode"] == 0 for e in ends)
        phase = "Succeeded" if good else "Failed"
        statuses = [container.status() for container in self.containers]
        self._kubelet.report(
            self.pod, phase=phase, conditions=ended_conditions(phase), containerStatuses=statuses
        )
        self._kubelet.release(self.pod)

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._kubelet.cluster.event(POD, self.pod, reason, message, source="kubelet", warning=warning)
