"""The main job, step by step, as any client would do it: the public REST API and the gateway, and nothing else.

Only the node that is taken away half-way is taken by the Kubernetes API: see demo.interruption. A step that does
not happen ends the demo with status 1.
"""

from __future__ import annotations

import json
import time
from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from cluster.errors import ClusterError
from demo.client import FLAVOR, SHARED_FLAVOR, SOURCES, TEAM, DemoError, Portal, say, step, until
from demo.interruption import print_interruption, submit_on_two_nodes, take_a_node_away, two_nodes_bill
from demo.scaling import GPU_SECONDS, REPLICAS_MAX, SCALING, scale_with_load, sleep_and_wake
from portal.settings import env

ACCURACY_MIN = 0.9
BATCH = 60


def main() -> int:
    """Run all steps; 0 if all of it happened, 1 with the reason if not."""
    portal = Portal(
        url=_given("PORTAL_PUBLIC_URL"), live_url=_given("PORTAL_LIVE_URL"), token=_given("DEMO_ANA_TOKEN")
    )
    started = time.monotonic()
    try:
        with step("make two volumes"):
            make_volumes(portal)
        with step("submit a training run (20 epochs on 1,437 real digits)"):
            run = submit_run(portal)
        with step("train"):
            run = follow_run(portal, run)
        with step("train on two nodes, data-parallel, and lose one of them half-way"):
            wide = take_a_node_away(portal, submit_on_two_nodes(portal))
            print_interruption(portal, wide)
        with step("deploy the model as an endpoint"):
            endpoint = deploy(portal)
        with step("call it with the 360 held-out digits, through the gateway"):
            accuracy = call_endpoint(portal)
        with step("put load on it, and let it scale"):
            scale_with_load(portal, endpoint)
        with step("let it sleep at zero, and wake it with one request"):
            sleep_and_wake(portal, endpoint)
        with step("read the bill"):
            print_bill(portal, run, endpoint)
            two_nodes_bill(portal, wide)
            say("    the GPUs are simulated; prices are public on-demand prices of the cards")
    except (DemoError, ClusterError) as error:
        say(f"the demo stopped: {error}")
        return 1
    say(f"all of it happened in {time.monotonic() - started:.1f} s; the endpoint got {accuracy:.1%} right")
    print_logins(portal)
    return 0


def make_volumes(portal: Portal) -> None:
    """One for checkpoints, one for models."""
    for name in ("checkpoints", "models"):
        made = portal.call("POST", f"teams/{TEAM}/volumes/", {"name": name, "size": "1Gi"})
        say(f"    {made['name']}: {made['size']}, {made['access_mode']}")


def submit_run(portal: Portal) -> dict[str, Any]:
    """A run that brings its own code, as any user's would."""
    body = {
        "team": TEAM,
        "name": "digits",
        "kind": "job",
        "image": "python:3.13",
        "command": ["python", "train.py"],
        "env": [{"name": "MODEL_DIR", "value": "/models"}, {"name": "EPOCHS", "value": "20"}],
        "source": {
            "files": {"train.py": (SOURCES / "train.py").read_text(encoding="utf-8")},
            "path": "/workspace",
        },
        "flavor": FLAVOR,
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "2Gi",
        "volumes": [{"claim": "models", "path": "/models"}],
        "checkpoint": {"path": "/checkpoints", "claim": "checkpoints"},
        "time_limit_seconds": 600,
        "max_retries": 1,
    }
    preview = portal.call("POST", "training-runs/preview/", body)
    say(f"    preview: {preview['verdict']}: {preview['message']}")
    say(f"    at most {preview['cost']['at_time_limit']['usd']} USD by its time limit")
    run: dict[str, Any] = portal.call("POST", "training-runs/", body)
    say(f"    {run['url']}")
    return run


def follow_run(portal: Portal, run: dict[str, Any]) -> dict[str, Any]:
    """Wait for its end, then show what it wrote: the logs are kept after its pod is gone."""
    path = f"training-runs/{run['id']}/"
    run = portal.wait(path, lambda workload: workload["phase"] == "Succeeded")
    lines = until(lambda: _finished_log(portal, path), "the log has its last line")
    for line in [*lines[:2], "…", *lines[-3:]]:
        say(f"    | {line}")
    points = portal.call("GET", f"{path}checkpoints/")["results"]
    if not points:
        raise DemoError("the run reported no checkpoint")
    say(f"    newest checkpoint: step {points[0]['step']}")
    return run


def _finished_log(portal: Portal, path: str) -> list[str]:
    lines = portal.read(f"{portal.url}/api/v1/{path}logs/").decode().splitlines()
    return lines if lines and "held-out accuracy" in lines[-1] else []


def deploy(portal: Portal) -> dict[str, Any]:
    """The model that the run wrote, behind the Open Inference Protocol."""
    body = {
        "team": TEAM,
        "name": "digits",
        "runtime": "custom",
        "image": "python:3.13",
        "command": ["python", "serve.py"],
        "args": [
            *("--host", "0.0.0.0", "--port", "8080", "--model", "/models/digits.pickle"),  # noqa: S104
            *("--gpu-seconds", str(GPU_SECONDS)),
        ],
        "source": {
            "files": {"serve.py": (SOURCES / "serve.py").read_text(encoding="utf-8")},
            "path": "/workspace",
        },
        "model": {"claim": "models", "path": "/models"},
        "min_replicas": 1,
        "max_replicas": REPLICAS_MAX,
        "scaling": SCALING,
        "flavor": SHARED_FLAVOR,
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "1Gi",
        "ports": {"http": 8080},
        "probes": {
            "readiness": {"path": "/v2/health/ready", "period_seconds": 1},
            "load_budget_seconds": 60,
        },
    }
    made = portal.call("POST", "endpoints/", body)
    say(f"    {made['url']}")
    endpoint = portal.wait(f"endpoints/{made['id']}/", lambda workload: workload["reason"] == "Ready")
    portal.read(f"{portal.live_url}/{TEAM}/digits/v2/health/ready")
    return endpoint


def call_endpoint(portal: Portal) -> float:
    """Share of the held-out digits that the endpoint names rightly."""
    digits = load_digits()
    _, images, _, labels = train_test_split(
        digits.data / 16.0, digits.target, test_size=0.2, random_state=7, stratify=digits.target
    )
    right, started = 0, time.monotonic()
    for first in range(0, len(images), BATCH):
        batch = images[first : first + BATCH]
        tensor = {
            "name": "pixels",
            "datatype": "FP64",
            "shape": list(batch.shape),
            "data": [float(value) for value in batch.ravel()],
        }
        url = f"{portal.live_url}/{TEAM}/digits/v2/models/digits/infer"
        answer = json.loads(portal.read(url, "POST", {"inputs": [tensor]}))
        (named,) = [output["data"] for output in answer["outputs"] if output["name"] == "digit"]
        right += sum(int(a == b) for a, b in zip(named, labels[first : first + BATCH], strict=True))
    accuracy = right / len(images)
    say(
        f"    {right} of {len(images)} right, {time.monotonic() - started:.2f} s for {len(images) // BATCH} calls"
    )
    if accuracy < ACCURACY_MIN:
        raise DemoError(f"only {accuracy:.1%} right: this is no trained model")
    return accuracy


def print_bill(portal: Portal, run: dict[str, Any], endpoint: dict[str, Any]) -> None:
    """What each workload has cost, by its pods' own times."""

    def billed() -> list[dict[str, Any]]:
        cost = portal.call("GET", f"training-runs/{run['id']}/cost/")
        return [cost] if cost["so_far"] and cost["so_far"]["amount_micro_usd"] > 0 else []

    (cost,) = until(billed, "the run has a cost")
    (line,) = cost["lines"]
    say(
        f"    run:      {cost['so_far']['usd']} USD ({line['started_at']} to {line['ended_at']}, on {line['node_name']})"
    )
    running = portal.call("GET", f"endpoints/{endpoint['id']}/cost/")
    if running["so_far"] is None:
        raise DemoError(f"the endpoint has no cost: {running['reason']}")
    rate = running["rate_per_hour"]["usd"]
    say(f"    endpoint: {running['so_far']['usd']} USD so far, {rate} USD an hour while it runs")


def print_logins(portal: Portal) -> None:
    """Where to go on by hand."""
    say(f"the portal is at {portal.url}")
    for person, what in (
        ("ana", "member of vision"),
        ("bo", "lead of speech"),
        ("qm", "quota manager"),
        ("root", "admin"),
    ):
        say(f"    {person} ({what}): {_given(f'DEMO_{person.upper()}_PASSWORD')}")


def _given(name: str) -> str:
    value = env.variable(name)
    if not value:
        raise DemoError(f"the environment has no {name}")
    return value
