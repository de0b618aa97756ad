"""Benchmarks that call the portal's own code: each in a process of its own, on a durable database of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.results import Result, Row
from tests.crash.fleet import ROOT, Fleet, running_fleet


@contextmanager
def database(folder: Path) -> Iterator[Fleet]:
    """PostgreSQL and Valkey with the portal's tables, `fsync` and `synchronous_commit` on; none of its processes."""
    nowhere = folder.with_name(f"{folder.name}.kubeconfig")
    nowhere.touch()
    with running_fleet(folder, kubeconfig=str(nowhere), durable=True, kinds=()) as fleet:
        yield fleet


def measure(name: str, folder: Path, *arguments: str) -> Result:
    """What `benchmarks.NAME.measure` answers in a process that is set up as the portal's are."""
    answer = folder / f"{name}.json"
    with database(folder / name) as fleet:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.inside", name, str(answer), *arguments],
            env=variables(fleet),
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"the benchmark {name} ended with {done.returncode}")
    return load(answer.read_text(encoding="utf-8"))


def variables(fleet: Fleet) -> dict[str, str]:
    """Those of a process that is set up as the portal's are, and serves nothing."""
    # The sockets that a server would listen on are not passed on: nothing listens here.
    kept = {name: text for name, text in fleet.variables.items() if not name.endswith("_BIND")}
    return kept | {"DJANGO_SETTINGS_MODULE": "portal.settings"}


def load(text: str) -> Result:
    fields = json.loads(text)
    rows: Sequence[Row] = [Row(**row) for row in fields.pop("rows")]
    return Result(rows=rows, **fields)
