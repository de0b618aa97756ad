"""`python -m devcluster`: start the cluster, write its kubeconfig when it answers, end on SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml
from aiohttp import web

from .cluster import Cluster
from .controllers import deployment, disruption, garbage, job, nodes, pytorchjob, scheduler, stored
from .controllers.autoscaler import Autoscalers
from .controllers.loop import Controller
from .controllers.observing import Observer
from .controllers.scaledobject import ScaledObjects
from .controllers.triggers import OWN_HEADERS
from .http import Api
from .kinds import NAMESPACE, NODE
from .kubelet.base import Kubelet
from .kubelet.clock import ClockKubelet
from .kubelet.process import ProcessKubelet
from .objects import name_of
from .prometheus import simulated
from .prometheus.api import PrometheusApi
from .prometheus.scrape import Scraper, Target, given_targets, pod_targets
from .prometheus.simulated import Use
from .prometheus.storage import Storage
from .store import Store

_PR_SET_PDEATHSIG = 1
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CONTROLLERS: tuple[type[Controller], ...] = (
    garbage.Namespaces, nodes.Nodes, nodes.TaintEviction, scheduler.Scheduler, stored.Claims, stored.Quotas, disruption.Budgets,
    job.Jobs, pytorchjob.PyTorchJobs, deployment.ReplicaSets, deployment.Deployments, garbage.Garbage, garbage.PodGarbage,
)  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m devcluster", description=__doc__)
    add, nodes_file = parser.add_argument, Path(__file__).with_name("nodes.yaml")
    add("--kubeconfig", type=Path, required=True, help="written (0600) when the server answers")
    add("--nodes", type=Path, default=nodes_file, help="Node objects in YAML")
    add("--data", type=Path, help="state that survives a restart; else a folder that goes at the end")
    add("--port", type=int, default=0, help="0 takes the port of the last time, else a free one")
    add("--kubelet", choices=("process", "clock"), default="process")
    add("--history", type=int, default=4096, help="versions that a watch can go back")
    add("--backoff", type=float, default=10.0, help="seconds before a first retry, then doubling")
    add("--autoscaler-interval", type=float, default=15.0, help="seconds between two looks of an autoscaler")
    add("--prometheus", metavar="ADDRESS", default="", help="127.0.0.1:PORT or fd://N: its API answers there")
    add("--scrape", metavar="URL", action="append", default=[], help="one of its targets; may be repeated")
    add("--scrape-interval", type=float, default=5.0, help="seconds between two scrapes")
    add("--die-with-parent", action="store_true", help="end when the process that started this one ends")
    return parser.parse_args()


def die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the parent has ended already")


def remember(path: Path, value: str) -> None:
    path.touch(mode=0o600)
    path.write_text(value)


def forget(path: Path) -> None:
    """The kubeconfig's presence means that the server answers, also after a kill."""
    path.unlink(missing_ok=True)


def remembered(path: Path, fresh: str) -> str:
    """A value that stays the same over restarts."""
    if not path.exists():
        remember(path, fresh)
    return path.read_text()


def write_kubeconfig(path: Path, port: int, token: str) -> None:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "devcluster",
        "clusters": [{"name": "devcluster", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "devcluster", "user": {"token": token}}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": "devcluster"}}],
    }  # fmt: skip
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(yaml.safe_dump(config))
    fresh.replace(path)


def seed(cluster: Cluster, nodes_file: Path) -> None:
    """The system namespaces, and the nodes of the file that are not there yet."""
    for name in _NAMESPACES:
        if cluster.store.get(NAMESPACE, "", name) is None:
            cluster.create(NAMESPACE, "", {"metadata": {"name": name}})
    for node in yaml.safe_load_all(nodes_file.read_text()):
        if cluster.store.get(NODE, "", name_of(node)) is None:
            cluster.create(NODE, "", node)


async def listen(api: Api, wanted: list[int]) -> tuple[web.AppRunner, int]:
    """Serve on loopback, on the first of the wanted ports that is free."""
    runner = web.AppRunner(api.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    for candidate in wanted:
        try:
            await web.TCPSite(runner, "127.0.0.1", candidate, backlog=512).start()
        except OSError:
            if candidate == wanted[-1]:
                raise
        else:
            break
    return runner, int(runner.addresses[0][1])


async def serve_prometheus(
    options: argparse.Namespace, store: Store, use: Use | None, token: str
) -> Callable[[], Awaitable[None]]:
    """Scrape and answer; the result ends it. Without a `use` pods are only played: no address of them answers."""
    storage, fixed = Storage(), given_targets(options.scrape)

    def targets() -> list[Target]:
        return [*fixed, *pod_targets(store), simulated.target(store, use)] if use else fixed

    scraper = Scraper(storage, targets, options.scrape_interval)
    runner = web.AppRunner(PrometheusApi(storage, token).app(), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    listener = loopback(options.prometheus)
    OWN_HEADERS["http://{}:{}".format(*listener.getsockname())] = {"Authorization": f"Bearer {token}"}
    await web.SockSite(runner, listener).start()
    scraper.start()

    async def end() -> None:
        await scraper.stop()
        await runner.cleanup()

    return end


def loopback(address: str) -> socket.socket:
    """A socket there, or the inherited one of `fd://N`; nothing but this machine is served."""
    if address.startswith("fd://"):
        return socket.socket(fileno=int(address.removeprefix("fd://")))
    host, _, port = address.rpartition(":")
    if not ipaddress.ip_address(host).is_loopback:
        raise SystemExit(f"--prometheus {address}: only a loopback address is served")
    return socket.create_server((host, int(port)))


async def serve(options: argparse.Namespace, data: Path) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    store = Store(data, options.history)
    cluster = Cluster(store, options.backoff)
    played = options.kubelet == "clock"
    kubelet: Kubelet = ClockKubelet(cluster, data) if played else ProcessKubelet(cluster, data)
    token = remembered(data / "token", secrets.token_urlsafe(32))
    api = Api(cluster, kubelet, token)
    observer = Observer(cluster)
    # Without processes there is no CPU time to be measured.
    use = None if played else kubelet.usage
    controllers = [make(cluster) for make in _CONTROLLERS]
    controllers.append(ScaledObjects(cluster, observer))
    controllers.append(Autoscalers(cluster, options.autoscaler_interval, observer.metric, use))
    seed(cluster, options.nodes)
    for controller in controllers:
        controller.start()
    kubelet.start()
    # Without a wanted port the last one is tried first, so that kubeconfigs stay right over a restart.
    wanted = [options.port] if options.port else [int(remembered(data / "port", "0")), 0]
    runner, port = await listen(api, wanted)
    remember(data / "port", str(port))
    end_prometheus = await serve_prometheus(options, store, use, token) if options.prometheus else None
    write_kubeconfig(options.kubeconfig, port, token)
    gc.collect()
    gc.freeze()
    await stopping.wait()
    forget(options.kubeconfig)
    for controller in controllers:
        controller.stop()
    api.watches.close()
    await observer.close()
    if end_prometheus is not None:
        await end_prometheus()
    await kubelet.stop()
    await runner.cleanup()
    store.close()


def main() -> None:
    options = arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    if options.die_with_parent:
        die_with_parent()
    if sys.version_info < (3, 12):
        # The default of older versions keeps a thread for every child.
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    forget(options.kubeconfig)
    with contextlib.ExitStack() as stack:
        if options.data is None:
            options.data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="devcluster-")))
        options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        asyncio.run(serve(options, options.data))


if __name__ == "__main__":
    main()
