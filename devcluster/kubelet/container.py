"""One container as a local process: started, watched, probed and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

import aiohttp

from devcluster.objects import Obj, quantity, timestamp

from .environment import command_line, environment
from .guard import sessions
from .logs import LogFile
from .sandbox import NotReady, Sandbox
from .statuses import container_status, terminated, waiting

_LAUNCHER = str(Path(__file__).with_name("podexec.py"))
START_ERROR = 128
_NOT_STARTED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: "
)
_DRAIN_SECONDS = 1.0


def kill_session(leader: int) -> None:
    """A container ends with its first process: nothing of its session may stay."""
    for pid, session in sessions().items():
        if session == leader:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


class Container:
    """The state that `containerStatuses` shows, and the process behind it."""

    def __init__(self, spec: Obj, sandbox: Sandbox) -> None:
        self.spec, self.name, self._sandbox = spec, str(spec["name"]), sandbox
        self.state = waiting("ContainerCreating")
        self.last: Obj = {}
        self.restarts = 0
        self.ready = self.started = False
        self.oom = False
        self.log: LogFile | None = None
        self.process: asyncio.subprocess.Process | None = None
        self._argv: list[str] = []
        self._env: dict[str, str] = {}
        self._folder = ""
        limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
        self.memory_limit = int(quantity(limit)) if limit else 0

    @property
    def running(self) -> bool:
        return "running" in self.state

    @property
    def ended(self) -> Obj | None:
        ended: Obj | None = self.state.get("terminated")
        return ended

    def status(self) -> Obj:
        image_id = (
            "" if "waiting" in self.state and not self.restarts else f"simulated://{self.spec['image']}"
        )
        own = {"started": self.started, "restartCount": self.restarts, "lastState": self.last}
        return container_status(self.spec, self.state, image_id, ready=self.ready) | own

    def wait(self, reason: str, message: str = "") -> None:
        self.state = waiting(reason, message)
        self.ready = self.started = False

    def configure(self) -> None:
        """Resolve everything the start needs; NotReady says what is missing."""
        rewrite = self._sandbox.rewriter(self.spec)
        self._env = environment(self._sandbox, self.spec, rewrite)
        self._argv = command_line(self.spec, self._env, rewrite)
        if not self._argv:
            raise NotReady("no command specified: devcluster pulls no image, so it knows no default command")
        wanted = Path(rewrite(self.spec.get("workingDir") or str(self._sandbox.home)))
        if not wanted.is_dir():
            wanted = self._sandbox.home / "root" / self.name / str(wanted).lstrip("/")
            wanted.mkdir(parents=True, exist_ok=True)
        self._folder = str(wanted)

    async def start(self) -> bool:
        """False when the command cannot be executed; the state says so as a kubelet does over containerd and runc: exit
        code 128, reason StartError, begun in 1970, and nothing in the log.
        """
        path = self._sandbox.home / f"{self.name}.log"
        if path.exists():
            path.replace(path.with_suffix(".previous"))
        self.log, self.oom = LogFile(path), False
        if (missing := self._not_executable(self._argv[0])) is not None:
            self._terminate(START_ERROR, "StartError", timestamp(0), f"{_NOT_STARTED}{missing}: unknown")
            self.log.close()
            return False
        self.process = await self._spawn(self._argv)
        self.state = {"running": {"startedAt": timestamp()}}
        return True

    def _not_executable(self, command: str) -> str | None:
        """Why the runtime could not execute it, in its words; None where it can."""
        if "/" not in command:
            program = shutil.which(command, path=self._env["PATH"])
            return None if program else f'exec: "{command}": executable file not found in $PATH'
        path = Path(self._folder) / command
        if not path.exists():
            return f'exec: "{command}": stat {command}: no such file or directory'
        if path.is_dir():
            return f'exec: "{command}": is a directory'
        return None if os.access(path, os.X_OK) else f'exec: "{command}": permission denied'

    async def _spawn(self, argv: list[str]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid()), self._folder, *argv, env=self._env,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    async def finish(self) -> int:
        """Copy the output until the first process ends; its end is the container's."""
        process, log = self.process, self.log
        if process is None or log is None or process.stdout is None:
            raise RuntimeError("the container has not been started")
        copying = asyncio.create_task(self._copy(process.stdout, log))
        code = await process.wait()
        kill_session(process.pid)
        await asyncio.wait([copying], timeout=_DRAIN_SECONDS)
        copying.cancel()
        log.close()
        self.process = None
        code = code if code >= 0 else 128 - code
        reason = "OOMKilled" if self.oom else "Error" if code else "Completed"
        falls_back = self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        message = log.last_words() if code and falls_back else ""
        self._terminate(code, reason, self.state["running"]["startedAt"], message)
        return code

    @staticmethod
    async def _copy(source: asyncio.StreamReader, log: LogFile) -> None:
        while data := await source.read(1 << 16):
            log.write(data)

    def _terminate(self, code: int, reason: str, started: str, message: str = "") -> None:
        self.state = terminated(code, reason, started, message)
        self.ready = self.started = False

    # Stopping

    def signal(self, number: signal.Signals) -> None:
        """TERM goes to the first process, as in a container; KILL to all."""
        if self.process is None or self.process.returncode is not None:
            return
        if number == signal.SIGKILL:
            kill_session(self.process.pid)
        with contextlib.suppress(ProcessLookupError):
            # `send_signal` reaps a process that has just ended; the event loop would then report exit code 255.
            os.kill(self.process.pid, number)

    async def before_stop(self, grace: float) -> None:
        """The preStop hook, within the grace period."""
        hook = (self.spec.get("lifecycle") or {}).get("preStop") or {}
        if self.process is None or not hook:
            return
        await asyncio.sleep(min(grace, hook["sleep"]["seconds"]))

    # Probing

    async def probe(self, probe: Obj, session: aiohttp.ClientSession) -> str:
        """Empty when it succeeds, else why not."""
        try:
            async with asyncio.timeout(probe["timeoutSeconds"]):
                return await self._probe(probe, session)
        except TimeoutError:
            return f"timeout: no answer within {probe['timeoutSeconds']}s"
        except (OSError, aiohttp.ClientError) as error:
            return str(error)

    async def _probe(self, probe: Obj, session: aiohttp.ClientSession) -> str:
        handler = probe.get("httpGet") or probe["tcpSocket"]
        host, port = handler.get("host") or self._sandbox.address, self._port(handler["port"])
        if "tcpSocket" in probe:
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return ""
        headers = {h["name"]: h["value"] for h in handler.get("httpHeaders") or ()}
        url = f"http://{host}:{port}/{handler['path'].lstrip('/')}"
        async with session.get(url, headers=headers, allow_redirects=False) as answer:
            return "" if 200 <= answer.status < 400 else f"HTTP probe failed with statuscode: {answer.status}"

    def _port(self, port: int | str) -> int:
        if isinstance(port, int) or port.isdigit():
            return int(port)
        return next(int(p["containerPort"]) for p in self.spec.get("ports") or () if p.get("name") == port)
