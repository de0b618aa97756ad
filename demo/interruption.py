"""The demo's run on two nodes, of which one is taken away while it trains: it goes on from its last checkpoint.

Taking a node away is nothing that the portal does: the demo does it as a spot handler or an administrator would, by a
taint through the Kubernetes API, and on a pretended cluster only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient, get_client
from cluster.kinds import ObjectRef
from demo.client import FLAVOR, SOURCES, TEAM, DemoError, Portal, say, until

EPOCHS, CHECKPOINT_EVERY = 400, 20
TAINT = {"key": "demo/maintenance", "value": "true", "effect": "NoExecute"}
_EPOCH = re.compile(r"^epoch (\d+)/")
_RESUMED = re.compile(r"^resuming after epoch (\d+) ")


def submit_on_two_nodes(portal: Portal) -> dict[str, Any]:
    """A PyTorchJob of a master and a worker, each on a card of its own."""
    run: dict[str, Any] = portal.call("POST", "training-runs/", request_for_two_nodes())
    say(f"    {run['url']}")
    return run


def request_for_two_nodes() -> dict[str, Any]:
    """The run's body. It may not retry: an interruption is not charged."""
    return {
        "team": TEAM,
        "name": "digits-parallel",
        "kind": "pytorchjob",
        "replicas": 2,
        "image": "python:3.13",
        "command": ["python", "train_parallel.py"],
        "env": [
            {"name": "MODEL_DIR", "value": "/models"},
            {"name": "EPOCHS", "value": str(EPOCHS)},
            {"name": "CHECKPOINT_EVERY", "value": str(CHECKPOINT_EVERY)},
        ],
        "source": {
            "files": {"train_parallel.py": (SOURCES / "train_parallel.py").read_text(encoding="utf-8")},
            "path": "/workspace",
        },
        "flavor": FLAVOR,
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "2Gi",
        "volumes": [{"claim": "models", "path": "/models"}],
        "checkpoint": {"path": "/checkpoints", "claim": "checkpoints"},
        "time_limit_seconds": 600,
        "max_retries": 0,
    }


def take_a_node_away(portal: Portal, run: dict[str, Any]) -> dict[str, Any]:
    """Wait for a checkpoint, make the worker's node unusable until the attempt has ended, and follow the next one."""
    path = f"training-runs/{run['id']}/"
    portal.wait(path, lambda workload: bool(_checkpoints(portal, path)) and workload["phase"] == "Running")
    (worker,) = [pod for pod in _pods(portal, path, attempt=1) if pod["name"].endswith("-worker-0")]
    node = worker["node_name"]
    with unusable(get_client(), node):
        say(f"    node {node} is taken away, and with it {worker['name']}")
        portal.wait(path, lambda workload: len(workload["attempts"]) > 1)
    say(f"    node {node} is back")
    return portal.wait(path, lambda workload: workload["phase"] == "Succeeded")


@contextmanager
def unusable(client: ClusterClient, node: str) -> Iterator[None]:
    """A node that evicts all pods. DemoError on a cluster whose nodes are no pretence."""
    if "+devcluster" not in str(client.version().get("gitVersion", "")):
        raise DemoError("the demo takes a node away, which it does on devcluster alone")
    _set_taints(client, node, add=[TAINT])
    try:
        yield
    finally:
        _set_taints(client, node, add=[])


def _set_taints(client: ClusterClient, node: str, *, add: list[dict[str, str]]) -> None:
    ref = ObjectRef(kinds.NODE.api_version, kinds.NODE.kind, "", node)
    before = client.get(ref)["spec"].get("taints") or []
    kept = [taint for taint in before if taint["key"] != TAINT["key"]]
    client.patch_merge(ref, {"spec": {"taints": [*kept, *add]}})


def print_interruption(portal: Portal, run: dict[str, Any]) -> None:
    """What it cost to be interrupted; DemoError unless the second attempt went on from a checkpoint of the first."""
    path = f"training-runs/{run['id']}/"
    kept = {point["path"]: point["step"] for point in _checkpoints(portal, path) if point["attempt"] == 1}
    lost = check_interruption(run["attempts"], kept)
    reached = _last_epoch(portal, path, attempt=1)
    lines = until(lambda: _finished_log(portal, path), "the second attempt's log has its last line")
    resumed = next((int(match[1]) for match in map(_RESUMED.match, lines) if match), None)
    if resumed is None or not 0 < resumed <= reached or reached - resumed > CHECKPOINT_EVERY:
        raise DemoError(f"attempt 1 reached epoch {reached}, attempt 2 went on after epoch {resumed}")
    say("    2 attempts, though it may not retry: an interruption is not charged")
    say(
        f"    work lost: {reached - resumed} of {reached} epochs, {lost} s; resumed after epoch {resumed} of {EPOCHS}"
    )
    say(f"    | {lines[-1]}")


def check_interruption(attempts: list[dict[str, Any]], kept: dict[str, int]) -> int:
    """Seconds of work that were lost; DemoError where it was not interrupted once and resumed from `kept`.

    `kept`: the first attempt's checkpoints, paths and steps.
    """
    numbers = sorted(attempt["number"] for attempt in attempts)
    if numbers != [1, 2]:
        raise DemoError(f"there are {len(attempts)} attempts, not 2")
    first, second = sorted(attempts, key=lambda attempt: int(attempt["number"]))
    if second["resumed_from"] not in kept:
        raise DemoError(
            f"attempt 2 resumed from {second['resumed_from']}, which is no checkpoint of attempt 1"
        )
    if kept[second["resumed_from"]] != max(kept.values()):
        raise DemoError(
            f"attempt 2 resumed from step {kept[second['resumed_from']]}, not from {max(kept.values())}"
        )
    return int(first["lost_seconds"])


def two_nodes_bill(portal: Portal, run: dict[str, Any]) -> None:
    """Each pod of each attempt is a line: what was lost has to be paid as well."""

    def billed() -> list[dict[str, Any]]:
        cost = portal.call("GET", f"training-runs/{run['id']}/cost/")
        complete = len(cost["lines"]) == 4 and all(line["ended_at"] for line in cost["lines"])
        return [cost] if complete and cost["so_far"] else []

    (cost,) = until(billed, "all four pods of the run on two nodes are billed")
    nodes = sorted({line["node_name"] for line in cost["lines"]})
    say(f"    on two:   {cost['so_far']['usd']} USD (2 attempts of 2 pods, on {' and '.join(nodes)})")


def _checkpoints(portal: Portal, path: str) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = portal.call("GET", f"{path}checkpoints/")["results"]
    return points


def _pods(portal: Portal, path: str, *, attempt: int) -> list[dict[str, Any]]:
    every: list[dict[str, Any]] = portal.call("GET", f"{path}pods/")["results"]
    return [pod for pod in every if pod["attempt"] == attempt]


def _master_log(portal: Portal, path: str, *, attempt: int) -> list[str]:
    (master,) = [pod for pod in _pods(portal, path, attempt=attempt) if pod["name"].endswith("-master-0")]
    url = f"{portal.url}/api/v1/{path}logs/?attempt={attempt}&pod={master['name']}"
    return portal.read(url).decode().splitlines()


def _last_epoch(portal: Portal, path: str, *, attempt: int) -> int:
    matches = (_EPOCH.match(line) for line in _master_log(portal, path, attempt=attempt))
    return max((int(match[1]) for match in matches if match), default=0)


def _finished_log(portal: Portal, path: str) -> list[str]:
    lines = _master_log(portal, path, attempt=2)
    return lines if lines and "held-out accuracy" in lines[-1] else []
