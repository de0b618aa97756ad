"""The Kubernetes API by bare HTTP, without the portal's client: what judges the portal must not share its code."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

JSON = "application/json"
MERGE = "application/merge-patch+json"
_WATCH_SECONDS = 3600


@dataclass(frozen=True)
class Address:
    """Where a kubeconfig points, and the bearer token in it."""

    scheme: str
    host: str
    port: int
    token: str

    @classmethod
    def of(cls, kubeconfig: str) -> Address:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        parts = urlsplit(config["clusters"][0]["cluster"]["server"])
        assert parts.hostname
        assert parts.port
        return cls(parts.scheme, parts.hostname, parts.port, config["users"][0]["user"]["token"])

    def connect(self, timeout: float = 60) -> http.client.HTTPConnection:
        if self.scheme == "http":
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)


class RawCluster:
    """One kept connection; for one thread."""

    def __init__(self, kubeconfig: str) -> None:
        self.address = Address.of(kubeconfig)
        self.connection = self.address.connect()

    def close(self) -> None:
        self.connection.close()

    def ask(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON
    ) -> tuple[int, dict[str, Any]]:
        payload = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = {"Authorization": f"Bearer {self.address.token}", "Content-Type": content_type}
        self.connection.request(method, path, payload, headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def read(self, path: str) -> dict[str, Any]:
        status, document = self.ask("GET", path)
        assert status == 200, document
        return document

    def watch(
        self, path: str, *, selector: str = "", on_event: Callable[[float, str, dict[str, Any]], None]
    ) -> Watch:
        """Everything that happens from now on; `on_event(moment, type, object)` is called in a thread of its own."""
        query = {"labelSelector": selector} if selector else {}
        version = self.read(f"{path}?{urlencode(query)}")["metadata"]["resourceVersion"]
        return Watch(self.address, path, query, version, on_event)


@dataclass
class Watch:
    address: Address
    path: str
    query: dict[str, str]
    version: str
    on_event: Callable[[float, str, dict[str, Any]], None]
    problem: str = ""
    _stopping: bool = False
    _connection: http.client.HTTPConnection | None = None
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # Closing alone does not wake a thread that reads.
            connection.sock.shutdown(2)
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopping and not self.problem:
            try:
                for moment, line in self._lines():
                    self._take(moment, json.loads(line))
            except (OSError, http.client.HTTPException, ValueError) as error:
                # It goes on from the last version, so nothing is missed; a version too old is told below.
                if not self._stopping:
                    time.sleep(0.2)
                    self.last_error = repr(error)

    def _lines(self) -> Iterator[tuple[float, bytes]]:
        query = {
            **self.query,
            "watch": "true",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
        }
        query["timeoutSeconds"] = str(_WATCH_SECONDS)
        self._connection = self.address.connect(timeout=_WATCH_SECONDS)
        try:
            headers = {"Authorization": f"Bearer {self.address.token}"}
            self._connection.request("GET", f"{self.path}?{urlencode(query)}", headers=headers)
            answer = self._connection.getresponse()
            while line := answer.readline():
                yield time.perf_counter(), line
        finally:
            self._connection.close()

    def _take(self, moment: float, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            self.problem = json.dumps(event["object"])
            return
        self.version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self.on_event(moment, event["type"], event["object"])
