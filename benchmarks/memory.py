"""What the portal's processes hold in memory when nothing happens."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.results import Result, Row
from tests.crash.fleet import KINDS, Fleet

GATE_MB, GOAL_MB = 500, 420
SETTLE_SECONDS = 10


Used = dict[str, tuple[float, float]]


def look(fleet: Fleet) -> Used:
    """RSS and PSS of each kind of process in MB, after a rest."""
    time.sleep(SETTLE_SECONDS)
    return {kind: _of_tree(fleet.children[kind].pid) for kind in KINDS}


def measure(fleet: Fleet, *, fresh: Used) -> Result:
    later = look(fleet)
    resident, proportional = _sums(fresh)
    rows = [
        Row(
            name="web + live + worker + beat + watcher, resident (RSS)",
            ours=f"{resident:.0f} MB",
            gate=f"≤ {GATE_MB} MB, goal {GOAL_MB} MB",
            passed=resident <= GATE_MB,
        ),
        Row(name="the same, proportional (PSS)", ours=f"{proportional:.0f} MB"),
        Row(name="idle again after the other measurements of this run", ours=_words(*_sums(later))),
        *(Row(name=kind, ours=_words(*used)) for kind, used in fresh.items()),
    ]
    return Result(
        title="Memory when idle",
        question="How much memory do the five processes hold when nothing happens?",
        method="Sums over each process and its children from `/proc/PID/smaps_rollup`, ten seconds after the start. RSS counts a page "
        "that two processes share twice, PSS divides it among all processes of the machine.",
        limits="PostgreSQL, the broker and the cluster are not the portal's and not in it. MB are 10⁶ bytes.",
        rows=rows,
    )


def _sums(used: Used) -> tuple[float, float]:
    return sum(rss for rss, _ in used.values()), sum(pss for _, pss in used.values())


def _words(rss: float, pss: float) -> str:
    return f"RSS {rss:.0f} MB, PSS {pss:.0f} MB"


def _of_tree(pid: int) -> tuple[float, float]:
    resident, proportional = _of(pid)
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        more = _of_tree(int(child))
        resident, proportional = resident + more[0], proportional + more[1]
    return resident, proportional


def _of(pid: int) -> tuple[float, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    values = {line.split()[0].rstrip(":"): int(line.split()[1]) * 1024 / 1e6 for line in lines}
    return values["Rss"], values["Pss"]
