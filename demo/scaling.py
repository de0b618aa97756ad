"""The demo's load: the endpoint grows with it and shrinks after it, then sleeps at zero replicas until a request wakes it.

What the replicas are comes from the REST API. Why there are so many is asked of the cluster's own autoscaler, which a
member of the team may read.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sklearn.datasets import load_digits

from cluster import kinds
from cluster.client import get_client
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from demo.client import TEAM, DemoError, Portal, say, until

CLIENTS, PER_REPLICA, REPLICAS_MAX = 8, 2, 3
GPU_SECONDS = 0.15
"""How long the pretended GPU works on one request; it takes one at a time."""
SCALING = {
    "trigger": "in-flight",
    "threshold": PER_REPLICA,
    # Short, so that the demo is.
    "cooldown_seconds": 10,
    "scale_down_stabilization_seconds": 5,
}
PATIENCE_SECONDS = 200.0
CALM_SECONDS = 3.0


@dataclass
class Answers:
    """What the clients have got: seconds by the time at which each answer came, and what went wrong."""

    seconds: list[tuple[float, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def since(self, began: float) -> tuple[float, float]:
        """Answers a second and the median of their seconds, from then on."""
        spans = [taken for at, taken in self.seconds if at >= began]
        return len(spans) / max(time.monotonic() - began, 0.001), statistics.median(spans) if spans else 0.0


def scale_with_load(portal: Portal, endpoint: dict[str, Any]) -> None:
    """1 → 3 → 1; DemoError where it does not come to that."""
    path = f"endpoints/{endpoint['id']}/"
    say(f"    {CLIENTS} clients at once; one replica is to bear {PER_REPLICA} requests in flight")
    with load(portal) as answers:
        began = time.monotonic()
        until(lambda: answers.seconds or answers.failures, "the first request under load is answered")
        _replicas(portal, path, REPLICAS_MAX, answers, began)
        began = time.monotonic()
        until(lambda: [1] * (time.monotonic() - began > CALM_SECONDS), "three replicas share the load")
        rate, median = answers.since(began)
        say(f"    {REPLICAS_MAX} replicas: {rate:.0f} answers a second, half of them within {median:.2f} s")
    if answers.failures:
        raise DemoError(f"{len(answers.failures)} of the requests failed, the first: {answers.failures[0]}")
    say(f"    the load ends: {len(answers.seconds)} requests, none failed")
    _replicas(portal, path, 1, None, 0.0)


def _replicas(portal: Portal, path: str, wanted: int, answers: Answers | None, began: float) -> None:
    """Wait until so many replicas are ready and no other pod is left; prints each change and why."""
    shown = len(_ready(portal, path))

    def done() -> list[bool]:
        nonlocal shown
        pods, ready = _alive(portal, path), _ready(portal, path)
        if len(ready) != shown:
            if answers is not None and shown == 1:
                rate, median = answers.since(began)
                say(f"    1 replica:  {rate:.0f} answers a second, half of them within {median:.2f} s")
            say(f"    {shown} → {len(ready)} replicas ready: {_why(pods or ready)}")
            shown = len(ready)
        return [True] if len(ready) == len(pods) == wanted else []

    until(done, f"{wanted} replicas are ready, and no pod more")


def _alive(portal: Portal, path: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = portal.call("GET", f"{path}pods/")["results"]
    return [pod for pod in pods if pod["gone_at"] is None and pod["finished_at"] is None]


def _ready(portal: Portal, path: str) -> list[dict[str, Any]]:
    return [pod for pod in _alive(portal, path) if pod["ready"]]


def _why(pods: list[dict[str, Any]]) -> str:
    """How the autoscaler of these pods explains the number that it wants."""
    if not pods:
        return "nobody calls it"
    name = pods[0]["name"].rsplit("-", 2)[0]
    ref = ObjectRef(
        kinds.AUTOSCALER.api_version, kinds.AUTOSCALER.kind, pods[0]["namespace"], f"keda-hpa-{name}"
    )
    try:
        status = get_client().get(ref)["status"]
    except ObjectNotFound:
        return "its autoscaler is gone"
    seen = [metric.get("external") or {} for metric in status.get("currentMetrics") or ()]
    values = [f"{amount(metric['current']['averageValue']):g}" for metric in seen if "current" in metric]
    limited = {condition["type"]: condition for condition in status.get("conditions") or ()}.get(
        "ScalingLimited", {}
    )
    return (
        f"its autoscaler wants {status['desiredReplicas']}, at {', '.join(values) or 'an unknown number of'} requests in "
        f"flight for each (target {PER_REPLICA}; {limited.get('reason', 'no reason yet')})"
    )


def sleep_and_wake(portal: Portal, endpoint: dict[str, Any]) -> None:
    """Scale to zero, where it costs nothing, and back by one request that is held meanwhile."""
    path = f"endpoints/{endpoint['id']}/"
    state = portal.call("GET", path)
    # The rate is that of all the replicas that it may have.
    rate = portal.call("GET", f"{path}cost/")["rate_per_hour"]["amount_micro_usd"] / state["quantity"] / 1e6
    portal.call("PATCH", path, {"scale_to_zero": True})
    portal.wait(path, lambda workload: workload["reason"] == "ScaledToZero")
    if _alive(portal, path):
        raise DemoError("it is said to sleep, and there are pods")
    asleep = time.monotonic()
    paid = [_paid(portal, path)]
    until(lambda: [1] * (time.monotonic() - asleep > CALM_SECONDS), "some time passes")
    paid.append(_paid(portal, path))
    if len(set(paid)) > 1:
        raise DemoError(f"it sleeps, and its cost grew from {paid[0]} to {paid[1]} USD")
    say(f"    no pod is left, and its cost stands still at {paid[1]} USD")
    images = load_digits().data[:1] / 16.0
    waited = time.monotonic()
    answer = json.loads(portal.read(_url(portal), "POST", _body(images), timeout=PATIENCE_SECONDS))
    cold = time.monotonic() - waited
    (digit,) = next(output["data"] for output in answer["outputs"] if output["name"] == "digit")
    slept = waited - asleep
    say(f"    one request was held and woke it; the answer is {digit}, after {cold:.1f} s (the cold start)")
    say(f"    zero saved {rate * slept / 3600:.6f} USD in {slept:.1f} s, that is {rate:.4f} USD an hour")
    portal.call("PATCH", path, {"scale_to_zero": False})
    portal.wait(path, lambda workload: workload["reason"] == "Ready")


def _paid(portal: Portal, path: str) -> str:
    so_far: dict[str, str] = portal.call("GET", f"{path}cost/")["so_far"]
    return so_far["usd"]


def amount(quantity: str) -> float:
    """The number of a Kubernetes quantity such as `2667m`."""
    return float(quantity.removesuffix("m")) / (1000 if quantity.endswith("m") else 1)


@contextmanager
def load(portal: Portal) -> Iterator[Answers]:
    """Clients that each send the next request when the last is answered, until the block ends."""
    answers, over = Answers(), threading.Event()
    body = json.dumps(_body(load_digits().data[:1] / 16.0)).encode()
    threads = [
        threading.Thread(target=_client, args=(portal, body, answers, over), daemon=True)
        for _ in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _client(portal: Portal, body: bytes, answers: Answers, over: threading.Event) -> None:
    headers = {"Authorization": f"Bearer {portal.token}", "Content-Type": "application/json"}
    while not over.is_set():
        began = time.monotonic()
        request = urllib.request.Request(_url(portal), body, headers, method="POST")  # noqa: S310 (the portal's own address)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
                answer.read()
        except urllib.error.HTTPError as error:
            answers.failures.append(f"{error.code}: {error.read().decode(errors='replace')[:300]}")
            over.wait(1)
        except OSError as error:
            answers.failures.append(str(error))
            over.wait(1)
        else:
            answers.seconds.append((time.monotonic(), time.monotonic() - began))


def _url(portal: Portal) -> str:
    return f"{portal.live_url}/{TEAM}/digits/v2/models/digits/infer"


def _body(images: Any) -> dict[str, Any]:
    tensor = {
        "name": "pixels",
        "datatype": "FP64",
        "shape": list(images.shape),
        "data": [float(value) for value in images.ravel()],
    }
    return {"inputs": [tensor]}
