"""Which services `up` starts, from the environment: what it names is used, the rest is embedded."""

from __future__ import annotations

import http.client
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from portal.folders import Folders
from portal.runtime import postgres, rows, valkey
from portal.runtime.children import Command
from portal.runtime.supervisor import Service
from portal.settings.env import BASE_DIR, Environment

MANAGE = (sys.executable, str(BASE_DIR / "manage.py"))
_GRACE_SECONDS = 25.0


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The opened sockets of web and live, and the URLs under which they are reached.

    `prometheus_fd` is the socket of the embedded Prometheus, None where there is none.
    """

    web_fd: int
    live_fd: int
    web: tuple[str, int]
    live: tuple[str, int]
    public_url: str
    live_url: str
    internal_url: str
    prometheus_fd: int | None = None


def servers(environment: Environment, folders: Folders, addresses: Addresses) -> list[Service]:
    """The first stage: the databases and the cluster, as far as the environment names none."""
    found = []
    if environment.database is None:
        found.append(
            Service(
                name="postgres",
                command=postgres.command(folders),
                prepare=partial(postgres.prepare, folders),
                ready=partial(postgres.is_ready, folders),
                vital=True,
            )
        )
    if environment.redis_url is None:
        found.append(
            Service(
                name="valkey",
                command=valkey.command(folders),
                prepare=partial(valkey.prepare, folders),
                ready=partial(valkey.is_ready, folders),
                vital=True,
            )
        )
    if environment.kubeconfig is None:
        found.append(_devcluster(folders, addresses))
    return found


def preparation(variables: Mapping[str, str]) -> list[Service]:
    """The second stage: each ends by itself."""
    commands = {"migrate": ("migrate", "--no-input", "--skip-checks")}
    if not (BASE_DIR / "staticfiles").is_dir():  # an image brings them along
        commands["static"] = ("collectstatic", "--no-input", "--skip-checks")
    return [
        Service(
            name=name,
            command=Command(arguments=(*MANAGE, *arguments, "--verbosity=1"), environment=variables),
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
    web = {**variables, "PORTAL_BIND": f"fd://{addresses.web_fd}"}
    live = {**variables, "PORTAL_LIVE_BIND": f"fd://{addresses.live_fd}"}
    beats = partial(rows.has_beaten, database, started)
    return [
        Service(
            name="web",
            command=_portal("serve", web, pass_fds=(addresses.web_fd,)),
            ready=partial(_answers, addresses.web),
        ),
        Service(
            name="live",
            command=_portal("live", live, pass_fds=(addresses.live_fd,)),
            ready=partial(_answers, addresses.live),
        ),
        Service(name="worker", command=_portal("work", variables), ready=partial(beats, "worker")),
        Service(name="beat", command=_portal("beat", variables), ready=partial(beats, "beat")),
        Service(name="watcher", command=_portal("watch", variables), ready=partial(beats, "watcher")),
    ]


def _devcluster(folders: Folders, addresses: Addresses) -> Service:
    arguments = ["--kubeconfig", str(folders.kubeconfig), "--data", str(folders.devcluster)]
    arguments += ["--nodes", str(BASE_DIR / "devcluster" / "nodes.yaml"), "--port", "0"]
    arguments += ["--kubelet", "process", "--die-with-parent", "--autoscaler-interval", "2"]
    inherited: tuple[int, ...] = ()
    if addresses.prometheus_fd is not None:
        inherited = (addresses.prometheus_fd,)
        arguments += ["--prometheus", f"fd://{addresses.prometheus_fd}", "--scrape-interval", "2"]
        arguments += ["--scrape", f"{_origin(addresses.live)}/-/metrics"]
        arguments += ["--scrape", f"{_origin(addresses.web)}/metrics"]
    return Service(
        name="devcluster",
        command=Command(
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


def _origin(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _portal(name: str, variables: Mapping[str, str], *, pass_fds: tuple[int, ...] = ()) -> Command:
    return Command(
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
