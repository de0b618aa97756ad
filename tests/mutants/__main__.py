"""Plant each fault of the list in a copy of the project and see whether a test finds it.

`python -m tests.mutants draw` adds the groups to the list that are new (what is drawn stays: it is the yardstick), `reach`
runs both tiers of the suite and records which tests reach which lines, `run` plants, `report` prints the table.
`make mutants` is the last three.
A fault is caught where a test that reaches its line fails; `run` goes on where it was ended.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.migrating import kept_tables
from tests.mutants.changed import NO_MAP, Repository
from tests.mutants.chosen import file_of
from tests.mutants.chosen import write as write_chosen
from tests.mutants.faults import ROOT, Fault, listed, located, with_new_groups, write
from tests.mutants.lines import Hunk, moved
from tests.mutants.reach import merge
from tests.mutants.reached import COMMIT, Map, load
from tests.mutants.sites import Site, planted

VERDICTS = Path(__file__).parent / "verdicts.json"
# What the suite found while it still built each world anew, and of the faults from 61 on when they were first planted: what was
# caught then is caught now.
BEFORE = Path(__file__).parent / "before.json"
REACH = ROOT / ".mutants"
SUITE = ["-m", "not cluster and not journey and not processes and not crash"]
# A fault may make the program wait for ever; the tests have limits of their own.
RUN_SECONDS = 3600
NEVER_ENDED = "never ended"
# Of fewer tests two workers take longer to start than they save.
WORTH_WORKERS = 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("step", choices=["draw", "reach", "run", "report"])
    parser.add_argument("-n", "--jobs", default="2", help="workers of pytest")
    parser.add_argument("--anew", action="store_true", help="run: forget the verdicts there are")
    asked = parser.parse_args()
    match asked.step:
        case "draw":
            write(with_new_groups(listed()))
        case "reach":
            sys.exit(record(asked.jobs))
        case "run":
            run(asked.jobs, anew=asked.anew)
        case "report":
            sys.exit(report())


def record(jobs: str) -> int:
    """Run the suite; the exit code is pytest's."""
    shutil.rmtree(REACH, ignore_errors=True)
    REACH.mkdir()
    # The commit whose code runs, whatever is committed meanwhile.
    (REACH / COMMIT).write_text(_git("rev-parse", "HEAD"))
    environment = {**os.environ, "PORTAL_TEST_REACH": str(REACH)}  # noqa: TID251
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.reach", "-n", jobs, *SUITE]
    ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    whole = coverage.Coverage(data_file=REACH / "reach", config_file=False)
    whole.combine([str(path) for path in REACH.glob("reach.*")])
    whole.save()
    merge(REACH)
    return ended.returncode


def run(jobs: str, *, anew: bool) -> None:
    """Plant one after the other; each verdict is written at once."""
    before, last = (json.loads(path.read_text()) if path.exists() else {} for path in (BEFORE, VERDICTS))
    verdicts = {} if anew else dict(last)
    known = load(ROOT, REACH)
    if known is None:
        sys.exit(NO_MAP)
    between = Repository(ROOT).hunks(None, known.commit)
    with _copy() as tree:
        for fault in listed():
            if str(fault.number) in verdicts:
                continue
            found = {**before, **last}.get(str(fault.number), {}).get("by", "")
            verdicts[str(fault.number)] = verdict = judge(tree, fault, known, between, jobs, first=found)
            VERDICTS.write_text(json.dumps(verdicts, indent=1) + "\n")
            _say(fault, verdict)


def judge(
    tree: Path, fault: Fault, known: Map, between: Mapping[str, list[Hunk]], jobs: str, *, first: str = ""
) -> dict[str, Any]:
    """Whether a test finds it, how many reach it, the first that failed, and the seconds it took.

    `between` leads from the lines of today to those of the map.
    `first` is the name of the test that is asked before the others: what found it once.
    """
    module, site = located(fault)
    tests = [test for test in reaching(known, between, module, site) if (tree / file_of(test)).exists()]
    if not tests:
        return {"verdict": "unreached", "tests": 0, "by": "", "seconds": 0}
    path = tree / module
    source = path.read_text()
    path.write_text(planted(source, site))
    _lend_tables(tree, module)
    try:
        began = time.monotonic()
        # It may be newer than the map, or have another name since.
        asked = first and (tree / file_of(first)).exists()
        by = _first_failure(tree, [first], known, jobs, may_be_none=True) if asked else ""
        by = by or _first_failure(tree, tests, known, jobs)
    finally:
        path.write_text(source)
    seconds = round(time.monotonic() - began)
    # What fails without the fault, too, has not found it.
    verdict = "survived" if not by else "caught" if _passes(tree, by, known) else "unclear"
    return {"verdict": verdict, "tests": len(tests), "by": by, "seconds": seconds}


def reaching(known: Map, between: Mapping[str, list[Hunk]], module: str, site: Site) -> list[str]:
    """The tests that reach the site, by themselves or by what is set up for them."""
    if module.endswith(".html"):
        tests = set(known.templates.get(module, ()))
    elif site.declared:
        tests = known.using(module, site.symbol)
    else:
        tests = known.reaching(module, moved(site.lines, between.get(module, ())))
    # Those of the module's own app first: one of them fails soonest.
    own = f"tests/{module.partition('/')[0]}/"
    return sorted(tests, key=lambda test: (not test.startswith(own), test))


def _first_failure(tree: Path, tests: list[str], known: Map, jobs: str, *, may_be_none: bool = False) -> str:
    """The name of a test that fails, or that none ended; empty where all pass. RuntimeError where they were not run."""
    workers = ["-n", jobs] if len(tests) > WORTH_WORKERS else []
    try:
        ended = _pytest(tree, tests, known, *workers, may_be_none=may_be_none)
    except subprocess.TimeoutExpired:
        return NEVER_ENDED
    if ended.returncode == pytest.ExitCode.OK:
        return ""
    # A fault that makes it take ever more memory: the system ended it.
    if ended.returncode == -signal.SIGKILL:
        return NEVER_ENDED
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ended.returncode not in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED} or not failed:
        raise RuntimeError(
            f"pytest ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        )
    name = failed[0].split(" ", 1)[1]
    # A name may hold what stands before the message.
    return next((test for test in tests if name.startswith(f"{test} - ")), name.partition(" - ")[0])


def _passes(tree: Path, test: str, known: Map) -> bool:
    """Whether it passes in the tree as it is; a module that could not even be imported names no test, but itself."""
    return test == NEVER_ENDED or _pytest(tree, [test], known).returncode == pytest.ExitCode.OK


def _pytest(
    tree: Path, tests: list[str], known: Map, *arguments: str, may_be_none: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs those tests, and what the map does not know in their files: a test may have another name since."""
    # What could not be imported has the name of its file.
    whole = [test for test in tests if test == file_of(test)]
    variables = write_chosen(
        tree / ".mutants-tests", tests=tests, files=whole, known=known.known, may_be_none=may_be_none
    )
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no"]
    command += [*SUITE, *arguments, "-p", "tests.mutants.chosen", *dict.fromkeys(map(file_of, tests))]
    return subprocess.run(
        command, cwd=tree, env={**os.environ, **variables},  # noqa: TID251
        capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
    )  # fmt: skip


@contextmanager
def _copy() -> Iterator[Path]:
    """What git knows of the working tree, in a folder of its own, so that a fault is never left behind."""
    files = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, files):
            if (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, Path(folder) / name)
        _lend_tables(Path(folder), "")
        yield Path(folder)


def _lend_tables(tree: Path, module: str) -> None:
    """Give the tree the tables that are kept here: where no model has the fault, it makes the same ones."""
    kept = kept_tables()
    if kept.exists() and "models" not in module:
        lent = kept_tables(tree)
        lent.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, lent)


def _git(*arguments: str) -> str:
    """What git prints, without the line break at its end."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def report() -> str | None:
    """The table of faults and verdicts, in Markdown; the value says which were caught once and are no more."""
    before, now = (json.loads(path.read_text()) if path.exists() else {} for path in (BEFORE, VERDICTS))
    for title, verdicts in (("before", before), ("now", now)):
        counts = Counter(each["verdict"] for each in verdicts.values())
        print(f"{title}: {', '.join(f'{count} {word}' for word, count in counts.most_common())}")  # noqa: T201
    for fault in listed():
        if str(fault.number) in now:
            _say(fault, now[str(fault.number)], before.get(str(fault.number)))
    caught = {number for number, each in before.items() if each["verdict"] == "caught"}
    lost = [number for number, each in now.items() if number in caught and each["verdict"] != "caught"]
    return f"caught before, and now by no test: {', '.join(lost)}" if lost else None


def _say(fault: Fault, verdict: dict[str, Any], before: dict[str, Any] | None = None) -> None:
    change = f"`{' '.join(fault.before.split())[:60]}` → `{fault.after[:60]}`"
    told = " | ".join(f"{each['verdict']}, {each['tests']}" if each else "" for each in (before, verdict))
    row = (fault.number, fault.symbol, fault.kind, change, told, verdict["by"])
    print(f"| {' | '.join(map(str, row))} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
