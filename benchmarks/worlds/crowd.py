"""Client processes that do the same thing for some seconds at the same time, and say how often each did it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from django.db import connection

Step = Callable[[], int]
Job = Callable[[int], Step]
"""Made ready for a client by its number, outside the clock; answers how many units of work one call did, 0 to end."""
LEAD_SECONDS = 0.3


@dataclass
class Score:
    """What a crowd did in one turn. `troubles` counts exceptions by the name of their class."""

    done: int = 0
    seconds: float = 0.0
    troubles: dict[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.done / self.seconds


class Crowd:
    """Forked once; each keeps its connection to the database from turn to turn."""

    def __init__(self, clients: int, jobs: dict[str, Job]) -> None:
        context = multiprocessing.get_context("fork")
        self._jobs = jobs
        self._pipes: list[Connection] = []
        self._processes = []
        connection.close()
        for number in range(clients):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, number, jobs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def turn(self, name: str, *, seconds: float) -> Score:
        """Everybody makes ready, begins at the same moment and stops after `seconds`."""
        for pipe in self._pipes:
            pipe.send((name, seconds))
        for pipe in self._pipes:
            pipe.recv()
        begin = time.monotonic() + LEAD_SECONDS
        for pipe in self._pipes:
            pipe.send(begin)
        return _sum([pipe.recv() for pipe in self._pipes])

    def end(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(10)


def _sum(scores: Sequence[Score]) -> Score:
    whole = Score(seconds=max(score.seconds for score in scores))
    for score in scores:
        whole.done += score.done
        for name, count in score.troubles.items():
            whole.troubles[name] = whole.troubles.get(name, 0) + count
    return whole


@contextmanager
def crowd(clients: int, jobs: dict[str, Job]) -> Iterator[Crowd]:
    made = Crowd(clients, jobs)
    try:
        yield made
    finally:
        made.end()


def _serve(pipe: Connection, number: int, jobs: dict[str, Job]) -> None:
    connection.connect()
    while True:
        try:
            name, seconds = pipe.recv()
        except EOFError:
            return
        step = jobs[name](number)
        pipe.send("ready")
        begin = pipe.recv()
        time.sleep(max(0.0, begin - time.monotonic()))
        pipe.send(_work(step, begin, seconds))


def _work(step: Step, begin: float, seconds: float) -> Score:
    score = Score()
    until = begin + seconds
    while time.monotonic() < until:
        try:
            done = step()
        except Exception as error:  # noqa: BLE001 (counted by name, and shown)
            name = type(error.__cause__ or error).__name__
            score.troubles[name] = score.troubles.get(name, 0) + 1
            continue
        if not done:
            break
        score.done += done
    score.seconds = time.monotonic() - begin
    return score
