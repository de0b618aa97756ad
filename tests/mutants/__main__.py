"""Plant each fault of the list in a copy of the project and see whether a test finds it.

`python -m tests.mutants draw` writes the list (once: it is the yardstick), `reach` runs the default suite and records
which tests reach which lines, `run` plants, `report` prints the table. `make mutants` is the last three.
A fault is caught where a test that reaches its line fails; `run` goes on where it was ended.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import coverage

from tests.mutants.faults import ROOT, Fault, draw, listed, located, write
from tests.mutants.sites import planted

VERDICTS = Path(__file__).parent / "verdicts.json"
REACH = ROOT / ".mutants"
SUITE = ["-m", "not cluster and not journey and not crash"]
# A fault may make the program wait for ever; the tests have limits of their own.
RUN_SECONDS = 3600


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("step", choices=["draw", "reach", "run", "report"])
    parser.add_argument("-n", "--jobs", default="2", help="workers of pytest")
    parser.add_argument("--anew", action="store_true", help="run: forget the verdicts there are")
    asked = parser.parse_args()
    match asked.step:
        case "draw":
            write(draw())
        case "reach":
            sys.exit(record(asked.jobs))
        case "run":
            run(asked.jobs, anew=asked.anew)
        case "report":
            report()


def record(jobs: str) -> int:
    """Run the suite; the exit code is pytest's."""
    shutil.rmtree(REACH, ignore_errors=True)
    REACH.mkdir()
    environment = {**os.environ, "PORTAL_TEST_REACH": str(REACH)}  # noqa: TID251
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.reach", "-n", jobs, *SUITE]
    ended = subprocess.run(pytest, cwd=ROOT, env=environment, check=False)
    whole = coverage.Coverage(data_file=REACH / "reach", config_file=False)
    whole.combine([str(REACH)])
    whole.save()
    return ended.returncode


def run(jobs: str, *, anew: bool) -> None:
    """Plant one after the other; each verdict is written at once."""
    verdicts = {} if anew or not VERDICTS.exists() else json.loads(VERDICTS.read_text())
    data = coverage.CoverageData(str(REACH / "reach"))
    data.read()
    with _copy() as tree:
        for fault in listed():
            if str(fault.number) in verdicts:
                continue
            verdicts[str(fault.number)] = verdict = judge(tree, fault, data, jobs)
            VERDICTS.write_text(json.dumps(verdicts, indent=1) + "\n")
            _say(fault, verdict)


def judge(tree: Path, fault: Fault, data: coverage.CoverageData, jobs: str) -> dict[str, Any]:
    """Whether a test finds it, how many reach it, the first that failed, and the seconds it took."""
    module, site = located(fault)
    contexts = data.contexts_by_lineno(str(ROOT / module))
    tests = sorted({test for line in site.lines for test in contexts.get(line, ()) if test})
    if not tests:
        return {"verdict": "unreached", "tests": 0, "by": "", "seconds": 0}
    path = tree / module
    source = path.read_text()
    path.write_text(planted(source, site))
    try:
        began = time.monotonic()
        by = _first_failure(tree, tests, jobs)
    finally:
        path.write_text(source)
    verdict = "caught" if by else "survived"
    return {"verdict": verdict, "tests": len(tests), "by": by, "seconds": round(time.monotonic() - began)}


def _first_failure(tree: Path, tests: list[str], jobs: str) -> str:
    """The name of a test that fails, or what else went wrong; empty where all pass."""
    names = tree / ".mutants-tests"
    names.write_text("\n".join(tests))
    workers = ["-n", jobs] if len(tests) > 20 else []
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", *workers]
    try:
        ended = subprocess.run(
            [*pytest, f"@{names}"], cwd=tree, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "never ended"
    if ended.returncode == 0:
        return ""
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else f"pytest ended with {ended.returncode}"


@contextmanager
def _copy() -> Iterator[Path]:
    """What git knows of the working tree, in a folder of its own, so that a fault is never left behind."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, files):
            if (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, Path(folder) / name)
        yield Path(folder)


def report() -> None:
    """The table of faults and verdicts, in Markdown."""
    verdicts = json.loads(VERDICTS.read_text())
    counts = Counter(each["verdict"] for each in verdicts.values())
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))  # noqa: T201
    for fault in listed():
        if str(fault.number) in verdicts:
            _say(fault, verdicts[str(fault.number)])


def _say(fault: Fault, verdict: dict[str, Any]) -> None:
    change = f"`{' '.join(fault.before.split())[:60]}` → `{fault.after[:60]}`"
    told = f"{verdict['verdict']} | {verdict['tests']} | {verdict['by']}"
    print(f"| {fault.number} | {fault.symbol} | {fault.kind} | {change} | {told} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
