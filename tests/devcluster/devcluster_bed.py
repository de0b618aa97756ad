"""A devcluster with real processes, and a small client for it. What both clusters can do is tested in tests/contract."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.waiting import until

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 90.0


class RefusedError(Exception):
    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status["message"])
        self.status = status


class Devcluster:
    """One server process; `call` speaks HTTP to it."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder, self._more = folder, more
        self.start()

    def start(self) -> None:
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "devcluster",
            "--kubeconfig",
            str(self.kubeconfig),
            "--backoff",
            "0.2",
        ]
        command += ["--data", str(self.folder / "data"), *self._more]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(lambda: self.kubeconfig.exists() or self.process.poll() is not None, PATIENCE_SECONDS)
        assert self.process.poll() is None, (self.folder / "log").read_text()
        config = yaml.safe_load(self.kubeconfig.read_text())
        self.server = config["clusters"][0]["cluster"]["server"]
        self.token = config["users"][0]["user"]["token"]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def open(self, method: str, path: str, body=None, media="application/json", **headers: str):
        data = json.dumps(body).encode() if body is not None else None
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": media, **headers}
        return urllib.request.urlopen(  # noqa: S310 - its own loopback address
            urllib.request.Request(self.server + path, data, sent, method=method),  # noqa: S310
            timeout=PATIENCE_SECONDS,
        )

    def call(self, method: str, path: str, body=None, media="application/json"):
        try:
            with self.open(method, path, body, media) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(json.load(error)) from error

    def text(self, path: str) -> str:
        with self.open("GET", path) as answer:
            return answer.read().decode()


class Space:
    """A namespace of one test."""

    def __init__(self, cluster: Devcluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.core = f"/api/v1/namespaces/{name}"
        cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        until(lambda: cluster.call("GET", f"{self.core}/serviceaccounts")["items"])

    def create(self, plural: str, body, group: str = ""):
        base = f"/apis/{group}/v1/namespaces/{self.name}" if group else self.core
        return self.cluster.call("POST", f"{base}/{plural}", body)

    def run(self, *command: str, name="p", spec=None, **container):
        """A pod with one container `main`."""
        main = {"name": "main", "image": "any:1", "command": list(command)} | container
        body = {
            "metadata": {"name": name, "labels": {"run": name}},
            "spec": {"restartPolicy": "Never", "containers": [main]} | (spec or {}),
        }
        return self.create("pods", body)

    def python(self, code: str, **more):
        return self.run("python", "-u", "-c", code, **more)

    def pod(self, name="p"):
        return self.cluster.call("GET", f"{self.core}/pods/{name}")

    def state(self, name="p"):
        return self.pod(name)["status"].get("containerStatuses", [{}])[0].get("state", {})

    def ended(self, name="p"):
        """The container's end, once the pod is over."""
        until(lambda: self.pod(name)["status"]["phase"] in {"Succeeded", "Failed"})
        return self.state(name)["terminated"]

    def running(self, name="p"):
        return until(lambda: "running" in self.state(name) and self.pod(name))

    def ready(self, name="p"):
        def look():
            conditions = self.pod(name)["status"].get("conditions", [])
            return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

        until(look)

    def log(self, name="p", query=""):
        return self.cluster.text(f"{self.core}/pods/{name}/log?{query}")

    def gone(self, name="p") -> bool:
        try:
            self.pod(name)
        except RefusedError as refused:
            return refused.status["code"] == 404
        return False

    def reasons(self) -> set[str]:
        return {e["reason"] for e in self.cluster.call("GET", f"{self.core}/events")["items"]}
