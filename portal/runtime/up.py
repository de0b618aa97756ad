"""`manage.py up`: the portal and everything it needs, in one terminal, until Ctrl-C."""

from __future__ import annotations

import argparse
import errno
import fcntl
import json
import os
import secrets
import shlex
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from portal.folders import Folders
from portal.runtime import plan
from portal.runtime.children import ChildCommand
from portal.runtime.postgres import CannotStartError
from portal.runtime.refusals import refusals
from portal.runtime.supervisor import SELF, FailedError, Service, StoppedError, Supervisor
from portal.settings import env, stores
from portal.settings.env import Bind, Environment

PORTS_TRIED = 50
BACKLOG = 2048
PROMETHEUS_BIND = Bind(host="127.0.0.1", port=9090)
QUIET = frozenset({"postgres", "valkey", "static", "migrate"})
WELCOME = "welcome"
THEN = "then"


class RefusedError(Exception):
    """`up` does not start; the message says why."""


def main(arguments: list[str]) -> int:
    """Runs until a signal; returns 0 after a normal end, 1 after a crash, 2 when it refuses to start."""
    options = _parser().parse_args(arguments)
    try:
        environment = env.load()
        folders = Folders(environment.data_dir)
        _check(environment)
        with _only_one(folders):
            return _run(environment, folders, options)
    except (RefusedError, ImproperlyConfigured) as problem:
        print(f"up: {problem}", file=sys.stderr)  # noqa: T201
        return 2


def _check(environment: Environment) -> None:
    reasons = refusals(environment)
    if reasons:
        raise RefusedError("\n".join(reasons))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manage.py up",
        description="Start the portal and everything it needs that the environment does not name.",
    )
    parser.add_argument("--then", metavar="COMMAND", default="", help="run this once all is ready")
    parser.add_argument("--once", action="store_true", help="end with the status of --then's command")
    return parser


def _run(environment: Environment, folders: Folders, options: argparse.Namespace) -> int:
    terminal = Terminal()
    supervisor = Supervisor(logs=folders.logs, echo=terminal.line)
    supervisor.listen()
    try:
        with ExitStack() as stack:
            sockets = [
                stack.enter_context(_listener(environment.bind, fixed=environment.bind_given)),
                stack.enter_context(_listener(environment.live_bind, fixed=environment.live_bind_given)),
            ]
            if environment.kubeconfig is None and environment.prometheus_url is None:
                # The port stays the same where it can: ScaledObjects of the cluster name it.
                sockets.append(stack.enter_context(_listener(PROMETHEUS_BIND, fixed=False)))
            listeners = {
                name: stack.enter_context(_metrics_listener(environment, folders, name))
                for name in plan.PROCESSES
            }
            return _serve(environment, folders, supervisor, sockets, listeners, options)
    except StoppedError:
        return 0
    except (FailedError, CannotStartError) as problem:
        terminal.line(SELF, str(problem))
        return 1
    finally:
        terminal.line(SELF, "ending")
        supervisor.stop()
        terminal.line(SELF, "everything has ended")


def _serve(
    environment: Environment,
    folders: Folders,
    supervisor: Supervisor,
    sockets: Sequence[socket.socket],
    listeners: Mapping[str, socket.socket],
    options: argparse.Namespace,
) -> int:
    if environment.secret_key is None:
        _keep_secret_key(folders.secret_key)
    metrics = {name: (listener.fileno(), _metrics_url(listener)) for name, listener in listeners.items()}
    addresses = replace(_addresses(environment, *sockets), metrics=metrics)
    prometheus = _prometheus(sockets[2:], folders)
    variables = env.for_child(
        DATA_DIR=str(folders.data),
        PUBLIC_URL=addresses.public_url,
        LIVE_URL=addresses.live_url,
        INTERNAL_URL=addresses.internal_url,
        **prometheus,
    )
    say = supervisor.echo
    say(SELF, f"starting; data and logs are in {folders.data}")
    supervisor.start(plan.servers(environment, folders, addresses))
    supervisor.start(plan.preparation(variables))
    database = stores.database(environment.database, folders)
    supervisor.start(plan.processes(variables, addresses, database))
    welcome = ChildCommand(arguments=(*plan.MANAGE, "sign_in_link", "--first"), environment=variables)
    supervisor.start([Service(name=WELCOME, command=welcome, once=True, logged=False)])
    say(SELF, f"the portal is at {addresses.public_url} (events and endpoints: {addresses.live_url})")
    if environment.kubeconfig is None:
        say(SELF, "simulated: the cluster is devcluster on this machine, its nodes and GPUs are pretended;")
        say(SELF, "the commands of pods run as real processes of this user. Ctrl-C ends everything.")
    if prometheus:
        say(
            SELF,
            f"its metrics are at {prometheus['PROMETHEUS_URL']}, with the token in {folders.devcluster_token} "
            "(a small Prometheus; GPU series are simulated)",
        )
    if not options.then:
        supervisor.watch()
        return 0
    command = ChildCommand(arguments=tuple(shlex.split(options.then)), environment=variables)
    supervisor.run_beside(Service(name=THEN, command=command, once=True))
    supervisor.watch(until=lambda: options.once and supervisor.status(THEN) is not None)
    status = supervisor.status(THEN)
    return 0 if not options.once else (1 if status is None else abs(status))


@contextmanager
def _only_one(folders: Folders) -> Iterator[None]:
    """Hold the data folder; raises RefusedError where another `up` does."""
    folders.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folders.lock.open("a+", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            owner = handle.read().strip() or "unknown"
            raise RefusedError(
                f"the portal already runs in {folders.data} (process {owner}). "
                "End that one, or set PORTAL_DATA_DIR to another folder."
            ) from None
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _listener(bind: Bind, *, fixed: bool) -> socket.socket:
    """A listening socket there; on the next free port unless the address is `fixed`. Raises RefusedError.

    It is opened here and inherited, so that no other process can take the port in between and a restart of
    the web process refuses no connection.
    """
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    ports = [bind.port] if fixed else range(bind.port, bind.port + PORTS_TRIED)
    for port in ports:
        try:
            return socket.create_server((bind.host, port), family=family, backlog=BACKLOG)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise RefusedError(f"cannot listen on {bind.host}:{port}: {problem.strerror}") from None
    raise RefusedError(
        f"port {ports[0]} of {bind.host} is taken" + ("" if fixed else f", and so are the next {PORTS_TRIED}")
    )


def _metrics_listener(environment: Environment, folders: Folders, process: str) -> socket.socket:
    """Where a process tells its metrics: where the environment says, else on a socket that this user alone may open.

    A port of the machine is open to each of its users, and metrics ask for no account.
    """
    if environment.metrics_bind is not None:
        return _listener(environment.metrics_bind, fixed=False)
    path = folders.metrics_socket(process)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(BACKLOG)
    return listener


def _metrics_url(listener: socket.socket) -> str:
    """The address that the embedded Prometheus scrapes."""
    if listener.family == socket.AF_UNIX:
        return f"unix://{listener.getsockname()}"
    return f"{plan.origin(listener.getsockname()[:2])}/metrics"


def _prometheus(listeners: Sequence[socket.socket], folders: Folders) -> dict[str, str]:
    """Where the portal's processes find the embedded one, and what it asks for, if there is one."""
    if not listeners:
        return {}
    host, port = listeners[0].getsockname()
    return {
        "PROMETHEUS_URL": f"http://{host}:{port}",
        "PROMETHEUS_TOKEN_FILE": str(folders.devcluster_token),
    }


def _addresses(
    environment: Environment, web: socket.socket, live: socket.socket, prometheus: socket.socket | None = None
) -> plan.Addresses:
    web_address, live_address = web.getsockname()[:2], live.getsockname()[:2]
    # Cookies ignore ports: another host name keeps those of the portal away from live.
    return plan.Addresses(
        web_fd=web.fileno(),
        live_fd=live.fileno(),
        web=web_address,
        live=live_address,
        public_url=environment.public_url or f"http://localhost:{web_address[1]}",
        live_url=environment.live_url or f"http://127.0.0.1:{live_address[1]}",
        internal_url=environment.internal_url or f"http://127.0.0.1:{web_address[1]}",
        prometheus_fd=None if prometheus is None else prometheus.fileno(),
    )


def _keep_secret_key(path: Path) -> None:
    if path.exists():
        return
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    unfinished.write_text(secrets.token_urlsafe(50), encoding="ascii")
    unfinished.rename(path)


class Terminal:
    """Prints each process's lines with its name in front; JSON log lines become readable ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False

    def line(self, name: str, text: str) -> None:
        """One line of `name`. What only matters when something fails stays in the log file."""
        if name in QUIET or not text:
            return
        shown = text if name in {SELF, WELCOME, THEN} else f"{name:<10} | {_readable(text)}"
        with self._lock:
            if self._closed:
                return
            try:
                print(shown, flush=True)  # noqa: T201
            except OSError:  # the terminal is gone; the log files go on
                self._closed = True


def _readable(text: str) -> str:
    if not text.startswith("{"):
        return text
    try:
        entry = json.loads(text)
        extra = {
            name: value for name, value in entry.items() if name not in {"at", "level", "logger", "event"}
        }
        trace = extra.pop("exception", "")
        fields = " ".join(f"{name}={value}" for name, value in extra.items())
        return f"{entry['level']:<7} {entry['event']} {fields}".rstrip() + (f"\n{trace}" if trace else "")
    except (ValueError, KeyError):
        return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
