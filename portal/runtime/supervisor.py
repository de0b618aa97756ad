"""Starts services in order, restarts those that crash, and ends all of them in reverse order.

Children are tied to this process by the kernel (portal.runtime.guard): when it is killed they end too.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from portal.runtime import children
from portal.runtime.children import Child, ChildCommand

Echo = Callable[[str, str], None]

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MAX_SECONDS = 30.0
# A service that ran this long is taken for healthy: its next crash starts from the short wait again.
HEALTHY_SECONDS = 60.0
_TICK_SECONDS = 0.5
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SELF = "up"


@dataclass(frozen=True, kw_only=True)
class Service:
    """A command and how to tell that it works.

    `vital`: its crash ends everything (the databases: nothing runs without them, and a restart would hide
    that they die). Not `logged`: its output holds a secret for the person at the terminal. `once`: it must end by itself with status 0 before the next stage starts.
    """

    name: str
    command: ChildCommand
    ready: Callable[[], bool] = lambda: True
    prepare: Callable[[], None] = lambda: None
    vital: bool = False
    once: bool = False
    logged: bool = True
    start_seconds: float = 60.0


class FailedError(Exception):
    """Something vital did not start or crashed; the message is for the person at the terminal."""


class StoppedError(Exception):
    """A signal asked for the end while services were still being started."""


@dataclass
class _Restart:
    due: float
    attempt: int


@dataclass
class Supervisor:
    """Use from the main thread only: signals arrive there, and the kernel watches that thread's end."""

    logs: Path
    echo: Echo
    backoff_first_seconds: float = BACKOFF_FIRST_SECONDS
    _services: dict[str, Service] = field(default_factory=dict)
    _running: dict[str, Child] = field(default_factory=dict)
    _started: dict[str, float] = field(default_factory=dict)
    _attempts: dict[str, int] = field(default_factory=dict)
    _restarts: dict[str, _Restart] = field(default_factory=dict)
    _stopping: bool = False
    _hurried: bool = False
    _wakeup: int = -1

    def listen(self) -> None:
        """Take over the signals that mean "end"; the second one ends without waiting."""
        self._wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            signal.signal(number, self._asked_to_stop)
        # The handler does nothing; the signal's arrival ends the pause in `watch`.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def start(self, stage: Iterable[Service]) -> None:
        """Start the services of one stage together and wait until each is ready.

        Raises FailedError with the last lines of the one that is not, StoppedError when a signal came first.
        """
        services = list(stage)
        for service in services:
            self._begin(service)
        for service in services:
            self._await(service)

    def watch(self, until: Callable[[], bool] = lambda: False) -> None:
        """Keep the services running until a signal asks for the end or `until` holds. Raises FailedError."""
        while not self._stopping and not until():
            self._pause()
            for name, child in list(self._running.items()):
                if child.poll() is not None and not self._stopping:
                    self._ended(self._services[name], child)
            self._restart_due()

    def status(self, name: str) -> int | None:
        """The exit status of a `once` service that was left to run; None while it does."""
        child = self._running.get(name)
        return None if child is None else child.poll()

    def stop(self) -> None:
        """End everything that runs, the last started first."""
        self._stopping = True
        for child in reversed(list(self._running.values())):
            if self._hurried:
                child.signal(signal.SIGKILL)
            child.stop()
        self._running.clear()

    def run_beside(self, service: Service) -> None:
        """Start a `once` service without waiting for its end; `status` returns it."""
        self._begin(service)

    def _asked_to_stop(self, number: int, _frame: object) -> None:
        self._hurried = self._stopping and number == signal.SIGINT
        self._stopping = True
        if self._hurried:
            for child in self._running.values():
                child.signal(signal.SIGKILL)

    def _begin(self, service: Service) -> None:
        if self._stopping:
            raise StoppedError
        service.prepare()
        self._services[service.name] = service
        self._running[service.name] = children.start(
            name=service.name,
            command=service.command,
            log=self.logs / f"{service.name}.log" if service.logged else None,
            echo=self.echo,
        )
        self._started[service.name] = time.monotonic()

    def _await(self, service: Service) -> None:
        child = self._running[service.name]

        def done() -> bool:
            return child.poll() is not None if service.once else service.ready()

        def alive() -> bool:
            return not self._stopping and (service.once or child.poll() is None)

        came = children.wait_until(done, seconds=service.start_seconds, alive=alive)
        if self._stopping:
            raise StoppedError
        status = child.poll()
        if not came:
            late = f"did not become ready within {service.start_seconds:.0f} s"
            raise FailedError(
                self._report(child, late if status is None else f"ended while starting ({_why(status)})")
            )
        if service.once:
            del self._running[service.name]
            child.close()
            if status != 0:
                raise FailedError(self._report(child, f"failed ({_why(status)})"))

    def _ended(self, service: Service, child: Child) -> None:
        status = child.poll()
        if service.once:
            return
        child.close()
        del self._running[service.name]
        if service.vital:
            raise FailedError(
                self._report(child, f"ended unexpectedly ({_why(status)}); nothing can run without it")
            )
        lived = time.monotonic() - self._started[service.name]
        attempt = 1 if lived > HEALTHY_SECONDS else self._attempts.get(service.name, 0) + 1
        self._attempts[service.name] = attempt
        wait = min(self.backoff_first_seconds * 2 ** (attempt - 1), BACKOFF_MAX_SECONDS)
        self._restarts[service.name] = _Restart(time.monotonic() + wait, attempt)
        self.echo(
            SELF,
            f"{service.name} ended ({_why(status)}), starting it again in {wait:g} s (attempt {attempt})",
        )

    def _restart_due(self) -> None:
        now = time.monotonic()
        for name in [name for name, restart in self._restarts.items() if restart.due <= now]:
            if self._stopping:
                return
            del self._restarts[name]
            self._begin(self._services[name])

    def _pause(self) -> None:
        due = min((restart.due for restart in self._restarts.values()), default=None)
        wait = _TICK_SECONDS if due is None else max(0.0, min(_TICK_SECONDS, due - time.monotonic()))
        if select.select([self._wakeup], [], [], wait)[0]:
            os.read(self._wakeup, 4096)

    def _report(self, child: Child, what: str) -> str:
        child.close()
        lines = "".join(f"\n    {line}" for line in child.tail)
        return f"{child.name} {what}. Its last lines (all: {self.logs / child.name}.log):{lines}"


def _why(status: int | None) -> str:
    if status is None:
        return "still running"
    return f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
