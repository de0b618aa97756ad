"""What a restart of the watcher costs on a large cluster, beside reading the same list and its JSON alone."""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from typing_extensions import override

from benchmarks.results import Result, Rounds, Row, median
from benchmarks.worlds import rows
from cluster import kinds
from cluster.client import PAGE_SIZE, connect
from cluster.labels import workload_labels
from controller.watch.pods import PodSink
from controller.watch.watcher import OWN, KindWatcher
from logs.collector import LogCollector
from workloads.models import PodRecord, Workload
from workloads.states import Phase, Reason

COUNT = 10_000
PODS_EACH = 8
GATE, GOAL = 2.0, 1.5
_CREATED = "2026-11-01T10:00:00Z"


class Lists:
    """An API server as fast as one can be: pages of a list of pods, written before any client asks."""

    def __init__(self) -> None:
        self.pages: list[bytes] = []
        lists = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                page = lists.pages[int(asked.get("continue", ["0"])[0])]
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            @override
            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: it is asked thousands of times."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def show(self, pods: Sequence[dict[str, Any]], *, version: int) -> None:
        parts = [pods[start : start + PAGE_SIZE] for start in range(0, len(pods), PAGE_SIZE)]
        self.pages = [
            json.dumps(
                {
                    "kind": "PodList",
                    "apiVersion": "v1",
                    "metadata": {
                        "resourceVersion": str(version),
                        "continue": str(number + 1) if number + 1 < len(parts) else "",
                    },
                    "items": part,
                }
            ).encode()
            for number, part in enumerate(parts)
        ]

    def kubeconfig(self, folder: Path) -> str:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return str(path)


def measure(*, rounds: int, count: int = COUNT) -> Result:
    lists, runs = Lists(), made_runs(count // PODS_EACH)
    unchanged, changed = Rounds(), Rounds()
    with tempfile.TemporaryDirectory(prefix="mlp-relist-") as made:
        client = connect(lists.kubeconfig(Path(made)))
        sink = PodSink(LogCollector(lambda: client))
        watch = KindWatcher(
            kind=kinds.POD, sink=sink, client=lambda: client, stop=threading.Event(), scope=OWN
        )
        version = count + 1
        lists.show(made_pods(runs, version), version=version)
        first = _timed(lambda: watch.relist(client))
        if PodRecord.objects.count() != len(runs) * PODS_EACH:
            raise SystemExit("the watcher has not recorded all pods")
        rows.vacuum()
        for _ in range(rounds):
            unchanged.limit.append([_timed(lambda: _read(lists.port))])
            unchanged.ours.append([_timed(lambda: watch.relist(client))])
        for _ in range(min(rounds, 3)):
            version += count
            lists.show(made_pods(runs, version), version=version)
            changed.limit.append([_timed(lambda: _read(lists.port))])
            changed.ours.append([_timed(lambda: watch.relist(client))])
        client.close()
    lists.server.shutdown()
    size = sum(map(len, lists.pages)) / 2**20
    return Result(
        title="Watch relist: the watcher starts again",
        question=f"What does it cost to make sure of {count:,} pods after a restart?",
        method=f"{rounds} rounds in turn: the watcher's own relist, and a bare client that reads the same pages of {PAGE_SIZE} and their JSON "
        f"({size:.0f} MiB). The server has the pages ready in memory, so that nothing hides behind it. {len(runs):,} runs of {PODS_EACH} pods "
        "with one GPU each; usage is kept and runs are woken as in earnest.",
        limits="Server, watcher and client are one process. A real API server takes longer for its part, which makes the ratio smaller.",
        rows=[
            unchanged.row(f"{count:,} pods, nothing has changed", gate=GATE, goal=GOAL),
            _landmark(f"{count:,} pods, each has changed", changed),
            Row(name=f"{count:,} pods, all new", ours=f"{first:.0f} ms"),
        ],
    )


def _landmark(name: str, rounds: Rounds) -> Row:
    return Row(
        name=name,
        ours=f"{median(rounds.ours):.0f} ms",
        limit=f"{median(rounds.limit):.0f} ms",
        ratio=f"{rounds.ratio:.1f}×",  # noqa: RUF001 (a times sign is for people)
    )


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def _read(port: int) -> None:
    connection, token, seen = http.client.HTTPConnection("127.0.0.1", port), "0", 0
    while token:
        connection.request("GET", f"/api/v1/pods?limit={PAGE_SIZE}&continue={token}")
        page = json.loads(connection.getresponse().read())
        seen += len({item["metadata"]["uid"] for item in page["items"]})
        token = page["metadata"]["continue"]
    connection.close()


def made_runs(count: int) -> list[Workload]:
    (team,), owner, flavor = rows.make_teams("relist", count=1), rows.make_owner(), rows.make_flavor("relist")
    running = {"phase": Phase.RUNNING.value, "reason": Reason.PROGRESSING.value, "attempt_number": 1}
    return rows.save(
        [rows.queued(team, owner, flavor, units=PODS_EACH, units_each=1, **running) for _ in range(count)]
    )


def made_pods(runs: Sequence[Workload], version: int) -> list[dict[str, Any]]:
    return [_pod(run, number, version) for run in runs for number in range(PODS_EACH)]


def _pod(run: Workload, number: int, version: int) -> dict[str, Any]:
    """As large as pods of a training operator are: with their environment, mounts, and who manages which field."""
    labels = workload_labels(
        workload_id=str(run.public_id), attempt=1, team=run.team.slug, kind="training-run"
    )
    container = {
        "name": "main",
        "image": "registry.example/team/train:2026.11",
        "command": ["python", "-m", "train"],
        "env": [{"name": f"VARIABLE_{number}", "value": f"value-{number}"} for number in range(24)],
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}},
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/mnt/{number}"} for number in range(4)],
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": _CREATED}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    state = {"running": {"startedAt": _CREATED}}
    fields: dict[str, Any] = {
        f"f:field-{number}": {".": {}, "f:name": {}, "f:value": {}} for number in range(24)
    }
    return {
        "metadata": {
            "name": f"{run.name}-{number}",
            "namespace": run.team.namespace_name,
            "uid": f"{run.public_id}-{number}",
            "resourceVersion": str(version - number),
            "creationTimestamp": _CREATED,
            "labels": labels,
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {
            "nodeName": f"node-{number}",
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": f"volume-{number}", "emptyDir": {}} for number in range(4)],
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "restartCount": 0, "ready": True, "state": state}],
        },
    }
