"""The gateway beside a direct call, and beside a pass-through that checks, counts and limits nothing."""
# ruff: noqa: RUF001 (times signs and ranges are for people)

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results import Result, Row, median
from benchmarks.worlds import wire
from tests.crash.fleet import ROOT
from tests.factories.submitted import make_attempt, make_endpoint, move
from tests.factories.teams import make_member, make_team, make_token
from workloads.states import Phase

ALONE = 400
TOGETHER = 3_000
CONNECTIONS = 32
WARM = 200
GATE = 0.3
BODY = (
    b'{"inputs": [{"name": "pixels", "datatype": "FP64", "shape": [1, 64], "data": ['
    + b"0.0, " * 63
    + b"1.0]}]}"
)
DIRECT, THROUGH, OURS = "direct", "through", "gateway"
_START_SECONDS = 60.0


@dataclass
class Samples:
    """For each way: milliseconds of single requests, and requests a second, round by round."""

    alone: dict[str, list[list[float]]] = field(default_factory=lambda: {DIRECT: [], THROUGH: [], OURS: []})
    rates: dict[str, list[float]] = field(default_factory=lambda: {DIRECT: [], THROUGH: [], OURS: []})


def measure(*, rounds: int) -> Result:
    membership = make_member("member", team=make_team("vision"))
    endpoint = make_endpoint(membership.team, membership.user, name="digits", phase=Phase.ADMITTED)
    make_attempt(endpoint)
    move(endpoint, Phase.RUNNING)
    token = make_token(membership.user)
    with tempfile.TemporaryDirectory(prefix="mlp-gateway-") as folder, _parts(Path(folder)) as ports:
        samples = asyncio.run(_measured(ports, token, rounds))
    return _result(samples, rounds)


async def _measured(ports: Mapping[str, int], token: str, rounds: int) -> Samples:
    samples = Samples()
    request = wire.request("/vision/digits/v2/models/digits/infer", token=token, body=BODY)
    for way in ports:
        await wire.Crowd(request, count=WARM).run(ports[way], connections=CONNECTIONS)
    for number in range(rounds):
        # Each of them is first as often as the others.
        ways = [*ports][number % len(ports) :] + [*ports][: number % len(ports)]
        for way in ways:
            crowd = wire.Crowd(request, count=ALONE)
            await crowd.run(ports[way], connections=1)
            samples.alone[way].append(crowd.milliseconds)
        for way in ways:
            crowd = wire.Crowd(request, count=TOGETHER)
            samples.rates[way].append(TOGETHER / await crowd.run(ports[way], connections=CONNECTIONS))
    return samples


@contextmanager
def _parts(folder: Path) -> Iterator[dict[str, int]]:
    """The server, the pass-through and a live process before it; the port of each way to it."""
    ports = {way: _free_port() for way in (DIRECT, THROUGH, OURS)}
    server = f"http://127.0.0.1:{ports[DIRECT]}"
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG.format(server=server))
    live = os.environ | {  # noqa: TID251 - the settings of the process that it starts
        "PORTAL_LIVE_BIND": f"127.0.0.1:{ports[OURS]}",
        "PORTAL_LIVE_URL": f"http://127.0.0.1:{ports[OURS]}",
        "PORTAL_KUBECONFIG": str(kubeconfig),
    }
    commands: list[tuple[list[str], Mapping[str, str] | None]] = [
        (["-m", "benchmarks.worlds.wire", "server", str(ports[DIRECT])], None),
        (["-m", "benchmarks.worlds.wire", "through", str(ports[THROUGH]), server], None),
        (["manage.py", "live"], live),
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for arguments, environment in commands:
            processes.append(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        for port in ports.values():
            _until_answers(port)
        yield ports
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _until_answers(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit("a part of the benchmark did not start") from None
            time.sleep(0.05)
        else:
            return


def _result(samples: Samples, rounds: int) -> Result:
    rates = samples.rates
    ratios = [ours / limit for ours, limit in zip(rates[OURS], rates[THROUGH], strict=True)]
    ratio = statistics.median(rates[OURS]) / statistics.median(rates[THROUGH])
    return Result(
        title="A call through the gateway",
        question="What does the gateway add to a request, and how many a second does one live process take?",
        method=f"{rounds} rounds, in each of them every way in turn: {ALONE} POSTs of {len(BODY)} bytes one at a time, and "
        f"{TOGETHER:,} over {CONNECTIONS} connections. The ways to the same small server are direct, through 30 lines of aiohttp "
        "that only forward, and through `manage.py live`, which checks the token and the route, counts and keeps the limits. Server and "
        "callers are bare protocols that do nothing else.",
        limits="The server stands where the API server is, so that the hop inside the cluster is not in it. All of it shares the machine: "
        "with two cores, callers and server take their part of both ways.",
        rows=[
            _latency_row(samples, "p50", 0.5),
            _latency_row(samples, "p99", 0.99),
            Row(
                name="the pass-through beside a direct call, p50",
                ours=_shown(samples.alone[THROUGH], 0.5),
                limit=_shown(samples.alone[DIRECT], 0.5),
                ratio=_ratio(samples.alone[THROUGH], samples.alone[DIRECT], 0.5),
            ),
            Row(
                name=f"requests per second, {CONNECTIONS} connections, beside the pass-through",
                ours=_rate(rates[OURS]),
                limit=_rate(rates[THROUGH]),
                ratio=f"{ratio:.2f}× ({min(ratios):.2f}–{max(ratios):.2f})",
                gate=f"≥ {GATE:g}×",
                passed=ratio >= GATE,
            ),
        ],
        notes=[
            (
                f"Added to a direct call at the median: {_added(samples, OURS):.2f} ms by the gateway, "
                f"{_added(samples, THROUGH):.2f} ms by the pass-through. Direct, the same callers get {_rate(rates[DIRECT])} answers."
            ),
        ],
    )


def _added(samples: Samples, way: str) -> float:
    return median(samples.alone[way]) - median(samples.alone[DIRECT])


def _latency_row(samples: Samples, name: str, share: float) -> Row:
    return Row(
        name=f"one request at a time beside a direct call, {name}",
        ours=_shown(samples.alone[OURS], share),
        limit=_shown(samples.alone[DIRECT], share),
        ratio=_ratio(samples.alone[OURS], samples.alone[DIRECT], share),
    )


def _quantiles(rounds: list[list[float]], share: float) -> list[float]:
    return [sorted(samples)[min(len(samples) - 1, int(len(samples) * share))] for samples in rounds]


def _shown(rounds: list[list[float]], share: float) -> str:
    quantiles = _quantiles(rounds, share)
    return f"{statistics.median(quantiles):.2f} ms ({min(quantiles):.2f}–{max(quantiles):.2f})"


def _ratio(ours: list[list[float]], limit: list[list[float]], share: float) -> str:
    mine, theirs = _quantiles(ours, share), _quantiles(limit, share)
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    return f"{statistics.median(mine) / statistics.median(theirs):.1f}× ({min(ratios):.1f}–{max(ratios):.1f})"


def _rate(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f}/s ({min(rates):,.0f}–{max(rates):,.0f})"


_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{token: benchmark}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
