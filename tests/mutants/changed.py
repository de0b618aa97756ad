"""Run the tests that reach what was changed: `make test CHANGED=1`, against HEAD or the merge base with `BASE=`.

It uses the map that `python -m tests.mutants reach` makes, and runs everything without one. Lines of today are looked up
where they were when the map was made. A line at the level of a module or a class is executed when it is imported and reached by
no test: its tests are those of who mentions its names. A test that reads the sources reaches no line either: `make check` runs
those of `tests/architecture`. This is for the inner loop: it may leave out a test that would fail.

`python -m tests.mutants.changed --over 30` tells what it would have run for each of the last commits.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.ci.imports import ROOT, Project
from tests.mutants.choosing import Change, Choice, Chooser
from tests.mutants.chosen import file_of, write
from tests.mutants.lines import Hunk, hunks
from tests.mutants.reached import Map, load

FOLDER = ROOT / ".mutants"
NO_MAP = "there is no map of what each test reaches (`python -m tests.mutants reach` makes it)"
# `make check` runs these.
OF_SOURCES = "tests/architecture/"
# Of fewer tests two workers take longer to start than they save.
WORTH_WORKERS = 20


class Repository:
    """Texts and differences of commits; None is the working tree, with what git does not know yet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.text = cache(self._text)

    def git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=self.root, capture_output=True, check=check,
        )  # fmt: skip
        # A byte that is no UTF-8 stands in no line that is looked at.
        return done.stdout.decode(errors="replace")

    def hunks(self, old: str | None, new: str | None) -> dict[str, list[Hunk]]:
        versions = [each for each in (old, new) if each is not None]
        # With -R, git swaps the prefixes.
        prefixes = (
            ["--src-prefix=a/", "--dst-prefix=b/"] if old else ["-R", "--src-prefix=b/", "--dst-prefix=a/"]
        )
        options = ["-U0", "--no-renames", "--no-color", "--no-ext-diff", *prefixes]
        found = hunks(self.git("diff", *options, *versions, "--"))
        if new is None:
            others = self.git("ls-files", "-z", "--others", "--exclude-standard").split("\0")
            found |= {path: [] for path in others if path}
        return found

    def _text(self, version: str | None, path: str) -> str | None:
        if version is None:
            file = self.root / path
            return file.read_text(encoding="utf-8") if file.is_file() else None
        if not self.git("ls-tree", version, "--", path):
            return None
        return self.git("show", f"{version}:{path}")

    def has(self, commit: str) -> bool:
        return bool(self.git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", check=False))


def chosen(repository: Repository, project: Project, known: Map, old: str, new: str | None) -> Choice:
    """What a change from `old` to `new` asks for."""

    def at(version: str | None) -> Callable[[str], str | None]:
        return lambda path: repository.text(version, path)

    change = Change(
        repository.hunks(old, new),
        repository.hunks(old, known.commit),
        at(known.commit),
        at(old),
        at(new),
    )
    choice = Chooser(project, known, change).choose()
    choice.tests = _of_make_test(choice.tests, known)
    choice.files = {file for file in choice.files if not file.startswith(OF_SOURCES)}
    return choice


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.changed", allow_abbrev=False)
    parser.add_argument(
        "--base",
        default="",
        help="what the working tree is compared with, or the last commit of --over (default HEAD)",
    )
    parser.add_argument("--over", type=int, default=0, help="tell what so many commits would have run")
    asked, arguments = parser.parse_known_args()
    repository, known = Repository(ROOT), load(ROOT, FOLDER)
    if known is None or not repository.has(known.commit):
        sys.exit(NO_MAP) if asked.over else _run_all(NO_MAP, arguments)
    elif asked.over:
        print("\n".join(over(repository, Project(), known, asked.over, tip=asked.base or "HEAD")))  # noqa: T201
    else:
        old = repository.git("merge-base", "HEAD", asked.base).strip() if asked.base else "HEAD"
        _run(chosen(repository, Project(), known, old, None), known, arguments)


def _run(choice: Choice, known: Map, arguments: list[str]) -> None:
    for note in choice.notes:
        _say(note)
    if choice.everything:
        _run_all(choice.everything, arguments)
    files = sorted(
        file for file in choice.files | {file_of(test) for test in choice.tests} if (ROOT / file).exists()
    )
    if not files:
        _say("no test reaches what was changed")
        return
    few = len(choice.tests) < WORTH_WORKERS and len(choice.files) < 2
    _say(
        f"{len(choice.tests)} tests reach what was changed; {len(choice.files)} files of tests run as a whole"
    )
    variables = write(
        FOLDER / "chosen.json",
        tests=choice.tests,
        files=choice.files,
        known=known.known,
        may_be_none=True,
    )
    command = [
        *arguments,
        *(["-n", "0", "--dist", "no"] if few else []),
        "-p",
        "tests.mutants.chosen",
        *files,
    ]
    _pytest(command, variables)


def _run_all(why: str, arguments: list[str]) -> None:
    _say(f"everything runs: {why}")
    _pytest(arguments, {})


def _pytest(arguments: list[str], variables: dict[str, str]) -> None:
    os.execve(  # noqa: S606
        sys.executable,
        [sys.executable, "-m", "pytest", *arguments],
        {**os.environ, **variables},  # noqa: TID251
    )


def over(repository: Repository, project: Project, known: Map, count: int, *, tip: str = "HEAD") -> list[str]:
    """For each of the last commits up to `tip` the tests that it would have run, and the medians. Who imports what is as it is today.

    The seconds add up those of the tests as measured while the map was made, which makes them two to three times slower.
    """
    rows, numbers, seconds = [], [], []
    for commit in repository.git("rev-list", "--no-merges", f"--max-count={count}", tip).split():
        if not repository.has(f"{commit}^"):
            continue
        choice = chosen(repository, project, known, f"{commit}^", commit)
        tests = _of_make_test(known.known if choice.everything else wanted(choice, known), known)
        took = sum(known.seconds.get(test, 0.0) for test in tests)
        numbers.append(len(tests))
        seconds.append(took)
        told = f"{took:8.0f} s" if known.seconds else ""
        rows.append(f"{commit[:9]} {len(tests):6} tests{told}  {choice.everything}".rstrip())
    if numbers:
        told = f"{statistics.median(seconds):8.0f} s" if known.seconds else "; no durations are recorded"
        rows.append(f"median    {statistics.median(numbers):6.0f} tests{told}")
    return rows


def wanted(choice: Choice, known: Map) -> set[str]:
    """By their ids, as the map has them."""
    return choice.tests | {test for test in known.known if file_of(test) in choice.files}


def _of_make_test(tests: set[str], known: Map) -> set[str]:
    return {test for test in tests - known.matrix if not test.startswith(OF_SOURCES)}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
