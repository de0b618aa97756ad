"""What one team's flood of requests costs another team, with the rates of REST and without."""
# ruff: noqa: RUF001 (times signs and ranges are for people)

from __future__ import annotations

import http.client
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.results import Result, Row
from foundation.http.rates import forget
from foundation.models import PlatformSettings
from tests.crash.fleet import ROOT
from tests.factories.teams import make_member, make_team, make_token

READS = 150
FLOODERS = 24
GATE = 2.0
PATH = "/api/v1/training-runs/"
ALONE, WITH, WITHOUT = "alone", "with", "without"
UNLIMITED = 1_000_000_000
_START_SECONDS = 60.0


def measure(*, rounds: int) -> Result:
    ours, theirs = (
        make_token(make_member("member", team=make_team(name)).user) for name in ("bystander", "flooding")
    )
    samples: dict[str, list[float]] = {ALONE: [], WITH: [], WITHOUT: []}
    floods: dict[str, list[float]] = {WITH: [], WITHOUT: []}
    with _web() as port:
        _p95(port, ours)
        for _ in range(rounds):
            samples[ALONE].append(_p95(port, ours))
            for way in (WITH, WITHOUT):
                _rate_is(None if way == WITH else UNLIMITED)
                with _flood(port, theirs) as answered:
                    samples[way].append(_p95(port, ours))
                    floods[way].append(answered())
    return _result(samples, floods, rounds)


def _rate_is(reads: int | None) -> None:
    default = PlatformSettings().reads_per_minute
    PlatformSettings.objects.update_or_create(pk=1, defaults={"reads_per_minute": reads or default})
    # What a change of the setting does in the process that makes it; the web process asks Valkey.
    forget()


@contextmanager
def _flood(port: int, token: str) -> Iterator[object]:
    """Requests of one token over many connections, each after the last; the value counts those a second."""
    command = [sys.executable, "-m", "benchmarks.worlds.flooder", str(port), token, str(FLOODERS), PATH]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        # It says so when it is in full flow, beyond what the rate lets through.
        process.stdout.readline()
        yield lambda: _told(process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(30)


def _told(process: subprocess.Popen[str]) -> float:
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    return float(process.stdout.readline())


def _p95(port: int, token: str) -> float:
    """Milliseconds of the slowest twentieth of one kept connection's reads, five at most in a hundred milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    taken = []
    for _ in range(READS):
        begun = time.perf_counter()
        connection.request("GET", PATH, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"the bystander was answered {answer.status}")
        taken.append((time.perf_counter() - begun) * 1000)
        threading.Event().wait(0.02)
    connection.close()
    return statistics.quantiles(taken, n=20)[-1]


@contextmanager
def _web() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    environment = os.environ | {"PORTAL_BIND": f"127.0.0.1:{port}"}  # noqa: TID251 - of the process that it starts
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve"],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _until_answers(port)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _until_answers(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the web process did not start")


def _result(samples: dict[str, list[float]], floods: dict[str, list[float]], rounds: int) -> Result:
    return Result(
        title="One team's flood, and the others",
        question="How long do a team's reads take while another team asks as fast as it can?",
        method=f"{rounds} rounds; in each the p95 of {READS} GETs of {PATH} of one team, over one kept connection with 20 ms between them: alone, "
        f"beside a flood of another team's token over {FLOODERS} kept connections with the rates as they are by default, and beside the same "
        "flood with a rate that nobody reaches. The web process is `manage.py serve`. The flood is in full flow, beyond what the rate lets "
        "through, before anything is measured.",
        limits="Flood, bystander, portal, PostgreSQL and Valkey share two cores: a part of what the flood costs is the flooder's own program.",
        rows=[
            _row(f"p95 beside a flood, default rates ({_a_second(floods[WITH])})", samples, WITH, gate=True),
            _row(
                f"p95 beside a flood, no rates ({_a_second(floods[WITHOUT])})", samples, WITHOUT, gate=False
            ),
        ],
    )


def _a_second(counts: list[float]) -> str:
    return f"{statistics.median(counts):,.0f} requests a second of the flood are answered"


def _row(name: str, samples: dict[str, list[float]], way: str, *, gate: bool) -> Row:
    ratios = [ours / alone for ours, alone in zip(samples[way], samples[ALONE], strict=True)]
    ratio = statistics.median(samples[way]) / statistics.median(samples[ALONE])
    return Row(
        name=name,
        ours=_shown(samples[way]),
        limit=_shown(samples[ALONE]),
        ratio=f"{ratio:.1f}× ({min(ratios):.1f}–{max(ratios):.1f})",
        gate=f"≤ {GATE:g}×" if gate else "—",
        passed=ratio <= GATE if gate else None,
    )


def _shown(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ms ({min(values):.1f}–{max(values):.1f})"
