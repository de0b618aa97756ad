"""A read of REST while 200 clients are slow, beside the same read without them."""
# ruff: noqa: RUF001 (times signs and ranges are for people)

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from benchmarks.gateway import _free_port, _until_answers
from benchmarks.results import Result, Row
from benchmarks.worlds import wire
from tests.crash.fleet import ROOT
from tests.factories.teams import make_member, make_team, make_token

COUNT = 600
CONNECTIONS = 8
WARM = 200
SLOW = 200
GATE, GOAL = 0.3, 0.5
PATIENCE_SECONDS = 60.0
ALONE, BESIDE = "alone", "beside slow clients"
_ENDING = b"}"
_HOST = b"Host: localhost\r\n"
# What each sends at first, and whether it goes on by the byte; the last kind does not read what it asked for.
_KINDS = (
    (b"GET /api/v1/me/ HTTP/1.1\r\n" + _HOST + b"X-Slow: a", True),
    (b"POST /sign-in/ HTTP/1.1\r\n" + _HOST + b"Content-Length: 100000\r\n\r\n", True),
    (
        b"GET /static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js HTTP/1.1\r\n"
        + _HOST
        + b"\r\n",
        False,
    ),
)


@dataclass
class Samples:
    """By way, round by round: requests a second, and milliseconds of each; nothing where no answer came."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {ALONE: [], BESIDE: []})
    times: dict[str, list[list[float]]] = field(default_factory=lambda: {ALONE: [], BESIDE: []})


def measure(*, rounds: int) -> Result:
    token = make_token(make_member("member", team=make_team("vision")).user)
    with _web() as port:
        samples = asyncio.run(_measured(port, token, rounds))
    return _result(samples, rounds)


@contextmanager
def _web() -> Iterator[int]:
    port = _free_port()
    variables = os.environ | {"PORTAL_BIND": f"127.0.0.1:{port}"}  # noqa: TID251 - the settings of the process that it starts
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve"],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_answers(port)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


async def _measured(port: int, token: str, rounds: int) -> Samples:
    samples = Samples()
    request = b"GET /api/v1/me/ HTTP/1.1\r\n" + _HOST + f"Authorization: Bearer {token}\r\n\r\n".encode()
    await wire.Crowd(request, count=WARM, ending=_ENDING).run(port, connections=CONNECTIONS)
    for number in range(rounds):
        ways = (ALONE, BESIDE) if number % 2 == 0 else (BESIDE, ALONE)
        for way in ways:
            async with _slow_clients(port, SLOW if way == BESIDE else 0):
                crowd = wire.Crowd(request, count=COUNT, ending=_ENDING)
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        samples.rates[way].append(COUNT / await crowd.run(port, connections=CONNECTIONS))
                except TimeoutError:
                    samples.rates[way].append(len(crowd.milliseconds) / PATIENCE_SECONDS)
                samples.times[way].append(crowd.milliseconds)
    return samples


@asynccontextmanager
async def _slow_clients(port: int, count: int) -> AsyncIterator[None]:
    """So many, in equal parts of each kind; one that the server gives up comes again."""
    connected = [asyncio.Event() for _ in range(count)]
    slow = [
        asyncio.create_task(_slow(port, *_KINDS[number % len(_KINDS)], connected=event))
        for number, event in enumerate(connected)
    ]
    await asyncio.gather(*(event.wait() for event in connected))
    try:
        yield
    finally:
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def _slow(port: int, sent: bytes, goes_on: bool, *, connected: asyncio.Event) -> None:  # noqa: FBT001
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as own, suppress(OSError):
            own.setblocking(False)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(own, ("127.0.0.1", port))
            await loop.sock_sendall(own, sent)
            connected.set()
            while True:
                await asyncio.sleep(1)
                if goes_on:
                    await loop.sock_sendall(own, b"a")
                else:
                    own.recv(1)
        await asyncio.sleep(0.1)


def _result(samples: Samples, rounds: int) -> Result:
    alone, beside = samples.rates[ALONE], samples.rates[BESIDE]
    ratio = statistics.median(beside) / statistics.median(alone)
    ratios = [ours / limit for ours, limit in zip(beside, alone, strict=True)]
    return Result(
        title="A read beside slow clients",
        question=f"What do {SLOW} clients that send or read slowly take from everybody else?",
        method=f"{rounds} rounds, in turn with and without them: {COUNT} reads of `GET /api/v1/me/` with a token over {CONNECTIONS} "
        f"connections to one `manage.py serve`. Of the {SLOW}, a third sends headers by one byte a second, a third a body, and a third "
        "reads a file of 1.4 MB by one byte a second; one that is given up connects again at once.",
        limits="Clients, server and PostgreSQL share the machine. Who is slow from many addresses is still counted by nobody but the proxy.",
        rows=[
            Row(
                name=f"reads per second beside {SLOW} slow clients, limit: the same read without them",
                ours=_rate(beside),
                limit=_rate(alone),
                ratio=f"{ratio:.2f}× ({min(ratios):.2f}–{max(ratios):.2f})",
                gate=f"≥ {GATE:g}×, goal {GOAL:g}×",
                passed=ratio >= GATE,
            ),
            Row(name="the same, p99", ours=_p99(samples.times[BESIDE]), limit=_p99(samples.times[ALONE])),
        ],
        notes=[BEFORE],
    )


def _rate(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f}/s ({min(rates):,.0f}–{max(rates):,.0f})"


def _p99(rounds: list[list[float]]) -> str:
    quantiles = [sorted(times)[int(len(times) * 0.99)] for times in rounds if times]
    if not quantiles:
        return "no answer"
    return f"{statistics.median(quantiles):.1f} ms ({min(quantiles):.1f}–{max(quantiles):.1f})"


BEFORE = (
    "Before (gunicorn, one worker of eight threads), by the same measurement with a patience of 15 seconds: 0/s (0–0) beside the slow "
    "clients and 156/s (45–207) without them, 0.00×."
)
