"""Which services `up` starts, from the environment: what it names is used, the rest is embedded."""

from __future__ import annotations

import http.client
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from portal.folders import Folders
from portal.runtime import postgres, rows, valkey
from portal.runtime.children import ChildCommand
from portal.runtime.supervisor import Service
from portal.settings.env import BASE_DIR, Environment

MANAGE = (sys.executable, str(BASE_DIR / "manage.py"))
_GRACE_SECONDS = 25.0


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The opened sockets of web and live, and the URLs under which they are reached.

    `prometheus_fd` is the socket of the embedded Prometheus, None where there is none; `metrics` holds by process
    the socket and the URL of its metrics.
    """

    web_fd: int
    live_fd: int
    web: tuple[str, int]
    live: tuple[str, int]
    public_url: str
    live_url: str
    internal_url: str
    prometheus_fd: int | None = None
    metrics: Mapping[str, tuple[int, str]] = field(default_factory=dict)


PROCESSES = MappingProxyType(
    {"web": "serve", "live": "live", "worker": "work", "beat": "beat", "watcher": "watch"}
)
"""The portal's own, each with its command."""


def servers(environment: Environment, folders: Folders, addresses: Addresses) -> list[Service]:
    """The first stage: the databases and the cluster, as far as the environment names none."""
    services = []
    if environment.database is None:
        services.append(
            Service(
                name="postgres",
                command=postgres.command(folders),
                prepare=partial(postgres.prepare, folders),
                ready=partial(postgres.is_ready, folders),
                vital=True,
            )
        )
    if environment.redis_url is None:
        services.append(
            Service(
                name="valkey",
                command=valkey.command(folders),
                prepare=partial(valkey.prepare, folders),
                ready=partial(valkey.is_ready, folders),
                vital=True,
            )
        )
    if environment.kubeconfig is None:
        services.append(_devcluster(folders, addresses))
    return services


def preparation(variables: Mapping[str, str]) -> list[Service]:
    """The second stage: each ends by itself."""
    commands = {"migrate": ("migrate", "--no-input", "--skip-checks")}
    if not (BASE_DIR / "staticfiles").is_dir():  # an image brings them along
        commands["static"] = ("collectstatic", "--no-input", "--skip-checks")
    return [
        Service(
            name=name,
            command=ChildCommand(arguments=(*MANAGE, *arguments, "--verbosity=1"), environment=variables),
            once=True,
            start_seconds=600,
        )
        for name, arguments in commands.items()
    ]


def processes(
    variables: Mapping[str, str], addresses: Addresses, database: Mapping[str, Any]
) -> list[Service]:
    """The third stage: the portal's own processes."""
    started = datetime.now(UTC)  # noqa: TID251 (compared with rows, before Django is there)
    served = {
        "web": ("PORTAL_BIND", addresses.web_fd, addresses.web),
        "live": ("PORTAL_LIVE_BIND", addresses.live_fd, addresses.live),
    }
    services = []
    for name, command in PROCESSES.items():
        sockets = {}
        if name in addresses.metrics:
            sockets["PORTAL_METRICS_BIND"] = addresses.metrics[name][0]
        ready = partial(rows.has_beaten, database, started, name)
        if name in served:
            variable, number, address = served[name]
            sockets[variable] = number
            ready = partial(_answers, address)
        own = {**variables, **{variable: f"fd://{number}" for variable, number in sockets.items()}}
        services.append(
            Service(name=name, command=_portal(command, own, pass_fds=tuple(sockets.values())), ready=ready)
        )
    return services


def _devcluster(folders: Folders, addresses: Addresses) -> Service:
    arguments = ["--kubeconfig", str(folders.kubeconfig), "--data", str(folders.devcluster)]
    arguments += ["--nodes", str(BASE_DIR / "devcluster" / "nodes.yaml"), "--port", "0"]
    arguments += ["--kubelet", "process", "--die-with-parent", "--autoscaler-interval", "2"]
    inherited: tuple[int, ...] = ()
    if addresses.prometheus_fd is not None:
        inherited = (addresses.prometheus_fd,)
        arguments += ["--prometheus", f"fd://{addresses.prometheus_fd}", "--scrape-interval", "2"]
        for _, url in addresses.metrics.values():
            arguments += ["--scrape", url]
    return Service(
        name="devcluster",
        command=ChildCommand(
            arguments=(sys.executable, "-m", "devcluster", *arguments),
            folder=BASE_DIR,
            pass_fds=inherited,
            stop_seconds=_GRACE_SECONDS,
            orphan_signal=signal.SIGTERM,
        ),
        # The file is written when the server answers, so an old one must not be taken for it.
        prepare=partial(folders.kubeconfig.unlink, missing_ok=True),
        ready=folders.kubeconfig.is_file,
    )


def origin(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _portal(name: str, variables: Mapping[str, str], *, pass_fds: tuple[int, ...] = ()) -> ChildCommand:
    return ChildCommand(
        arguments=(*MANAGE, name), environment=variables, pass_fds=pass_fds, stop_seconds=_GRACE_SECONDS
    )


def _answers(address: tuple[str, int]) -> bool:
    connection = http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
