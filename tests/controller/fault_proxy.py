"""A proxy before a cluster that does to chosen requests what networks, proxies and API servers do on bad days.

A `Relay` whose answers a `Fault` may replace, or spoil while they pass. What no fault matches goes through untouched.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3
from typing_extensions import override

from tests.cluster.cluster_faults import Exchange, FaultServer, status
from tests.controller.clusters import Relay

Spoil = Callable[[Iterator[bytes]], Iterator[bytes]]
Answer = Callable[[Exchange], None]
Match = Callable[[str, str], bool]


class Cut(Exception):
    """From here on the connection is broken."""


class Silence(Exception):
    """From here on nothing is said, and nobody is told: the socket stays open."""


class Late:
    """What is under way for long: it is held until the test lets it go. What it asked for has been done by then."""

    def __init__(self) -> None:
        self.held = 0
        self._go = threading.Event()

    def let_go(self) -> None:
        self._go.set()

    def hold(self) -> None:
        self.held += 1
        self._go.wait(300)

    def lines(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            self.hold()
            yield line


@dataclass
class Fault:
    """What happens to the first `times` requests that match, or to all: an `answer` of its own, or its lines are spoilt, or
    the answer (of a watch: each event) comes `late`.
    """

    match: Match
    answer: Answer | None = None
    spoil: Spoil | None = None
    late: Late | None = None
    times: int | None = None
    met: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def takes(self, method: str, path: str) -> bool:
        if not self.match(method, path):
            return False
        with self.lock:
            if self.times is not None and self.met >= self.times:
                return False
            self.met += 1
            return True


class FaultProxy(Relay):
    """`relay.faults` are asked in their order; each is put there by `meet` and goes by `mend`."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        self.faults: list[Fault] = []
        self.half_open = 0
        self._late: list[Late] = []
        self.closing = threading.Event()
        super().__init__(folder, kubeconfig)

    def meet(self, match: Match, *, times: int | None = None, **how: Any) -> Fault:
        fault = Fault(match, times=times, **how)
        self.faults.append(fault)
        return fault

    def late(self, match: Match, *, times: int | None = None) -> Late:
        """From now on such answers, or the events in them, are late."""
        late = Late()
        self._late.append(late)
        self.meet(match, times=times, late=late)
        return late

    def mend(self) -> None:
        """From now on everything goes through."""
        self.faults.clear()

    def refuse_connections(self) -> None:
        """Nobody listens any more, and what was open is cut, as when the server's process has gone."""
        self.server.stop_listening()
        # One that was accepted just before.
        self.away = True
        self.cut()

    def listen_again(self) -> None:
        self.away = False
        self.server.listen_again()

    @override
    def close(self) -> None:
        self.closing.set()
        for late in self._late:
            late.let_go()
        super().close()

    @override
    def _forward(self, exchange: Exchange) -> None:
        request = exchange.request
        fault = next((each for each in self.faults if each.takes(request.method, request.path)), None)
        if fault is None:
            super()._forward(exchange)
        elif fault.answer is not None:
            fault.answer(exchange)
        elif fault.late is not None and "watch=" not in request.path:
            answer = self._ask(request)
            fault.late.hold()
            self._hand_back(exchange, answer)
        else:
            self._spoilt(exchange, fault)

    def _spoilt(self, exchange: Exchange, fault: Fault) -> None:
        spoil = fault.late.lines if fault.late is not None else fault.spoil
        assert spoil is not None
        answer = self._ask(exchange.request)
        try:
            exchange.start(content_type=answer.headers.get("Content-Type", "application/json"))
            for piece in spoil(_lines(answer)):
                exchange.chunk(piece)
            exchange.finish()
        except Silence:
            self.half_open += 1
            self.closing.wait(300)
            exchange.cut()
        except (Cut, urllib3.exceptions.HTTPError, OSError):
            exchange.cut()
        finally:
            answer.close()


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    while chunk := answer.read1(65536):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


# --- which requests


def watches(plural: str) -> Match:
    """The watches of a kind."""
    return lambda method, path: method == "GET" and _is_of(path, plural) and "watch=" in path


def lists(plural: str) -> Match:
    """Its lists, over all namespaces: those of the watcher."""
    return lambda method, path: method == "GET" and _is_of(path, plural) and "watch=" not in path


def _is_of(path: str, plural: str) -> bool:
    url = urlsplit(path)
    # Foreign pods are followed by a watch of their own.
    return url.path.endswith(f"/{plural}") and not parse_qs(url.query).get("fieldSelector")


# --- what is done to them


def answers(code: int, reason: str, *, retry_after: int | None = None) -> Answer:
    """Refused before anything is said, with a Retry-After where one is given."""
    headers = [] if retry_after is None else [("Retry-After", str(retry_after))]
    return lambda exchange: exchange.reply(code, status(code, reason, "as the test wishes"), headers=headers)


def error_inside(code: int, reason: str, *, retry_after: int | None = None) -> Answer:
    """A watch that is answered 200, and whose first event is the refusal."""
    details = {} if retry_after is None else {"retryAfterSeconds": retry_after}
    event = {"type": "ERROR", "object": status(code, reason, "as the test wishes", **details)}

    def answer(exchange: Exchange) -> None:
        exchange.start()
        exchange.chunk(json.dumps(event).encode() + b"\n")
        exchange.finish()

    return answer


def empty(exchange: Exchange) -> None:
    """A 200 in which nothing is said, and which ends at once."""
    exchange.start()
    exchange.finish()


def cut_after(count: int, *, inside: bool = False) -> Spoil:
    """The connection breaks after so many events, or in the middle of the next."""

    def spoil(lines: Iterator[bytes]) -> Iterator[bytes]:
        yield from islice(lines, count)
        if inside:
            line = next(lines, b"")
            yield line[: len(line) // 2]
        raise Cut

    return spoil


def silent_after(count: int) -> Spoil:
    """Half-open: after so many events nothing is forwarded, and the socket stays."""

    def spoil(lines: Iterator[bytes]) -> Iterator[bytes]:
        yield from islice(lines, count)
        raise Silence

    return spoil


def doubled_and_shuffled(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Each event twice, and of each two the second first: what a proxy does that repeats what it has buffered."""
    waiting: list[bytes] = []
    for line in lines:
        waiting.append(line)
        if len(waiting) == 2:
            yield from [waiting[1], waiting[0], waiting[1]]
            waiting.clear()
        else:
            yield line


def lists_only(items: Sequence[dict[str, Any]], *, version: str) -> Answer:
    """A list that is answered 200 and shows only these."""
    document = {"metadata": {"resourceVersion": version}, "items": list(items)}
    return lambda exchange: exchange.reply(200, document)


def truncated(document: dict[str, Any]) -> Answer:
    """An answer of the announced length whose JSON breaks off."""
    body = json.dumps(document).encode()
    return lambda exchange: exchange.reply(200, body=body[: len(body) // 2])


__all__ = [
    "Cut",
    "Fault",
    "FaultProxy",
    "FaultServer",
    "Late",
    "Silence",
    "answers",
    "cut_after",
    "doubled_and_shuffled",
    "empty",
    "error_inside",
    "lists",
    "lists_only",
    "silent_after",
    "truncated",
    "watches",
]
