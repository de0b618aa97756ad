"""A devcluster of one's own that can be restarted, and a relay before a cluster that can be cut or made to lie."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import urllib3
import yaml

from cluster import kinds
from cluster.client import ClusterClient
from cluster.connection import _UnverifiedPool
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from tests.cluster.cluster_faults import FaultServer, status
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]


def gone(client: ClusterClient, ref: ObjectRef) -> bool:
    """Whether the cluster has no such object (any more)."""
    try:
        client.get(ref)
    except ObjectNotFound:
        return True
    return False


@contextmanager
def own_namespace(client: ClusterClient, prefix: str) -> Iterator[str]:
    """One in which pods can be made; it is deleted, its pods first, without grace."""
    name = f"{prefix}-{uuid4().hex[:8]}"
    made = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # The real control plane makes pods only once the namespace has its account.
    until(lambda: not gone(client, ObjectRef("v1", "ServiceAccount", name, "default")))
    yield name
    for pod in client.list(kinds.POD, namespace=name).items:
        ref = ObjectRef("v1", "Pod", name, pod["metadata"]["name"])
        client.delete(ref, uid=pod["metadata"]["uid"], grace_seconds=0)
    client.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


class OwnCluster:
    """`python -m devcluster` with a clock for a kubelet; its state survives `restart`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.kubeconfig = folder / "kubeconfig"
        self.start()

    def start(self) -> None:
        arguments = ["--kubeconfig", str(self.kubeconfig), "--data", str(self.folder / "data"), *self.options]
        arguments += ["--kubelet", "clock", "--die-with-parent", "--backoff", "0.1"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "devcluster", *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self.kubeconfig.exists, seconds=60, said=(self.folder / "log").read_text)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()


class Relay:
    """Hands every request on to the real server, unless a rule answers it or the line is cut."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        document = yaml.safe_load(Path(kubeconfig).read_text())
        self.target = document["clusters"][0]["cluster"]["server"]
        self.away = False
        self.cuts = 0
        self.rules: list[Callable[[str, str], dict | None]] = []
        self.seen: list[tuple[str, str]] = []
        self._open: set[object] = set()
        self._lock = threading.Lock()
        # A test cluster's certificate is its own.
        self._pool = urllib3.PoolManager(maxsize=32, retries=False, cert_reqs="CERT_NONE")
        self._pool.pool_classes_by_scheme = {"http": urllib3.HTTPConnectionPool, "https": _UnverifiedPool}
        self.server = FaultServer(folder / "relay", self._answer)
        self.server.token = document["users"][0]["user"]["token"]
        self.server.write_kubeconfig()
        self.kubeconfig = str(self.server.kubeconfig)

    def refuse(self, method: str, part: str, code: int, reason: str, message: str) -> None:
        """From now on such requests are refused with these words."""

        def rule(asked: str, path: str) -> dict | None:
            return status(code, reason, message) if asked == method and part in path else None

        self.rules.append(rule)

    def cut(self) -> None:
        """Break every request that is under way, as a lost connection does: also one that nothing was answered to yet."""
        with self._lock:
            exchanges = list(self._open)
            self.cuts += 1
        for exchange in exchanges:
            exchange.cut()

    def close(self) -> None:
        self.away = True
        self.cut()
        self.server.close()
        self._pool.clear()

    def _answer(self, exchange) -> None:
        with self._lock:
            self._open.add(exchange)
        try:
            self._answer_open(exchange)
        except OSError:
            exchange.cut()
        finally:
            with self._lock:
                self._open.discard(exchange)

    def _answer_open(self, exchange) -> None:
        request = exchange.request
        self.seen.append((request.method, request.path))
        if self.away:
            exchange.cut()
            return
        for rule in self.rules:
            document = rule(request.method, request.path)
            if document is not None:
                exchange.reply(document["code"], document)
                return
        self._forward(exchange)

    def _forward(self, exchange) -> None:
        self._hand_back(exchange, self._ask(exchange.request))

    def _ask(self, request) -> urllib3.BaseHTTPResponse:
        kept = {
            name: request.headers[name]
            for name in ("authorization", "accept", "content-type")
            if name in request.headers
        }
        return self._pool.request(
            request.method,
            self.target + request.path,
            body=request.body or None,
            headers=kept,
            preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=60),
        )

    def _hand_back(self, exchange, answer: urllib3.BaseHTTPResponse) -> None:
        request = exchange.request
        try:
            if "watch=" not in request.path and "follow=" not in request.path:
                exchange.reply(answer.status, body=answer.read())
                return
            exchange.start()
            while chunk := answer.read1(65536):
                exchange.chunk(chunk)
            exchange.finish()
        except (urllib3.exceptions.HTTPError, OSError):
            exchange.cut()
        finally:
            with suppress(Exception):
                answer.close()
