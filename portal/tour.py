"""The main job, step by step, as any client would do it: nothing here but the public REST API and the gateway.

Every number that is printed comes from an answer; a step that does not happen ends the tour with status 1.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from portal.settings import env

TEAM, FLAVOR = "vision", "t4"
DEADLINE_SECONDS = 180.0
POLL_SECONDS = 0.3
ACCURACY_MIN = 0.9
BATCH = 60
SOURCES = env.BASE_DIR / "demo" / "digits"


class TourError(Exception):
    """A step did not happen."""


class Portal:
    """A client of the REST API with one member's token."""

    def __init__(self, *, url: str, live_url: str, token: str) -> None:
        self.url = url
        self.live_url = live_url
        self.token = token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """JSON of `/api/v1/…`; TourError with the problem's own words."""
        return json.loads(self.read(f"{self.url}/api/v1/{path}", method, body) or b"null")

    def read(self, url: str, method: str = "GET", body: Any = None) -> bytes:
        """The body of an answer, following redirects as curl -L would."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 (the portal's own address)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace")
            raise TourError(f"{method} {url} answered {error.code}: {words}") from error
        except OSError as error:
            raise TourError(f"{method} {url}: {error}") from error

    def wait(self, path: str, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask until `done`; prints each new phase and reason."""
        deadline, shown = time.monotonic() + DEADLINE_SECONDS, ""
        while True:
            found: dict[str, Any] = self.call("GET", path)
            state = f"{found['phase']} ({found['reason']})"
            if state != shown:
                say(f"    {state}: {found['message']}")
                shown = state
            if done(found):
                return found
            if found["phase"] in {"Failed", "Cancelled"} or time.monotonic() > deadline:
                raise TourError(f"it is {state}: {found['message']}")
            time.sleep(POLL_SECONDS)


def main() -> int:
    """Take the tour; 0 if all of it happened, 1 with the reason if not."""
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
        with step("deploy the model as an endpoint"):
            endpoint = deploy(portal)
        with step("call it with the 360 held-out digits, through the gateway"):
            accuracy = call_endpoint(portal)
        with step("read the bill"):
            print_bill(portal, run, endpoint)
    except TourError as error:
        say(f"the tour stopped: {error}")
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
    run = portal.wait(path, lambda found: found["phase"] == "Succeeded")
    lines = _until(lambda: _finished_log(portal, path), "the log has its last line")
    for line in [*lines[:2], "…", *lines[-3:]]:
        say(f"    | {line}")
    points = portal.call("GET", f"{path}checkpoints/")["results"]
    if not points:
        raise TourError("the run reported no checkpoint")
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
        "args": ["--host", "0.0.0.0", "--port", "8080", "--model", "/models/digits.pickle"],  # noqa: S104
        "source": {
            "files": {"serve.py": (SOURCES / "serve.py").read_text(encoding="utf-8")},
            "path": "/workspace",
        },
        "model": {"claim": "models", "path": "/models"},
        "flavor": FLAVOR,
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "1Gi",
        "ports": {"http": 8080},
        "probes": {
            "readiness": {"path": "/v2/health/ready", "period_seconds": 1},
            "load_budget_seconds": 120,
        },
    }
    made = portal.call("POST", "endpoints/", body)
    say(f"    {made['url']}")
    endpoint = portal.wait(f"endpoints/{made['id']}/", lambda found: found["reason"] == "Ready")
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
        raise TourError(f"only {accuracy:.1%} right: this is no trained model")
    return accuracy


def print_bill(portal: Portal, run: dict[str, Any], endpoint: dict[str, Any]) -> None:
    """What each workload has cost, by its pods' own times."""

    def billed() -> list[dict[str, Any]]:
        cost = portal.call("GET", f"training-runs/{run['id']}/cost/")
        return [cost] if cost["so_far"] and cost["so_far"]["amount_micro_usd"] > 0 else []

    (cost,) = _until(billed, "the run has a cost")
    (line,) = cost["lines"]
    say(
        f"    run:      {cost['so_far']['usd']} USD ({line['started_at']} to {line['ended_at']}, on {line['node_name']})"
    )
    running = portal.call("GET", f"endpoints/{endpoint['id']}/cost/")
    if running["so_far"] is None:
        raise TourError(f"the endpoint has no cost: {running['reason']}")
    rate = running["rate_per_hour"]["usd"]
    say(f"    endpoint: {running['so_far']['usd']} USD so far, {rate} USD an hour while it runs")
    say("    the GPUs are simulated; prices are public on-demand prices of the cards")


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


def _until(ask: Callable[[], list[Any]], what: str) -> list[Any]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = ask()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TourError(f"it never happened that {what}")
        time.sleep(POLL_SECONDS)


@contextmanager
def step(title: str) -> Iterator[None]:
    """A step with its time."""
    started = time.monotonic()
    say(title)
    yield
    say(f"    done in {time.monotonic() - started:.1f} s")


def say(line: str) -> None:
    """One line of the tour."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _given(name: str) -> str:
    value = env.variable(name)
    if not value:
        raise TourError(f"the environment has no {name}")
    return value
