"""Groups of tests that a recent green run stands for are skipped; `tests/cluster/verified.json` has those runs.

`python -m tests.ci due GROUP…` tells which of them run and prints the names of these; `run GROUP…` runs tests on the
control plane that PORTAL_TEST_KUBECONFIG names, with `--record` also writes down which groups were green; `digest` and
`record` do that for the sweeps over all pages, which `make matrix` runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from foundation import clock
from tests.ci import groups, recording, verified
from tests.ci.imports import ROOT, Project
from tests.ci.verified import Reached, Record

# What a run writes is no reason for another.
OWN = frozenset({verified.RECORDS.relative_to(ROOT).as_posix()})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.ci", description=__doc__)
    parser.add_argument("--control-plane", type=Path, help="the folder of its scripts")
    commands = parser.add_subparsers(dest="command", required=True)
    due = commands.add_parser("due")
    due.add_argument("--all", action="store_true", help="whatever was green")
    run = commands.add_parser("run")
    run.add_argument("-n", "--jobs", default="1", help="workers of pytest, each with a control plane")
    run.add_argument(
        "--record", action="store_true", help="write down which groups were green, and what they reach"
    )
    for command in (due, run):
        command.add_argument("groups", nargs="+", choices=[*groups.GROUPS, groups.SWEEPS])
    commands.add_parser("digest")
    commands.add_parser("record").add_argument("digest")
    asked = parser.parse_args()
    match asked.command:
        case "due":
            tell_due(asked.groups, asked.control_plane, everything=asked.all)
        case "run":
            run_or_record = record_groups if asked.record else run_groups
            sys.exit(run_or_record(asked.groups, asked.control_plane, asked.jobs))
        case "digest":
            print(sweeps_digest(Project()))  # noqa: T201
        case "record":
            record_sweeps(asked.digest)


def tell_due(asked: list[str], control_plane: Path | None, *, everything: bool) -> None:
    """Why each runs or not for people, on the standard error; the names of those that run for the shell."""
    project, records = Project(), verified.read()
    digests = {
        group: _digest(project, group, record.reached, control_plane)
        for group, record in records.items()
        if group in asked
    }
    decisions = verified.plan(asked, records, digests, now=clock.now(), everything=everything)
    for each in decisions:
        _say(f"{'runs' if each.runs else 'SKIPPED'}: {each.group}, {each.why}")
    print(*(each.group for each in decisions if each.runs))  # noqa: T201


def run_groups(asked: list[str], _control_plane: Path | None, jobs: str, *plugins: str) -> int:
    """Run the tests of the groups; the exit code is pytest's."""
    by_group = groups.cluster_files(Project())
    files = [path for group in asked for path in by_group[group]]
    if not files:
        return 0
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "tests.ci.longest_first", "-m", "cluster"]
    command += ["-n", jobs, "--dist", "worksteal", *files]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def record_groups(asked: list[str], control_plane: Path | None, jobs: str) -> int:
    """Run them and write down which were green; the record is a file of the checkout, so a throw-away one needs none."""
    project = Project()
    before = verified.contents(project, project.files, control_plane)
    with tempfile.TemporaryDirectory(prefix="reached-") as folder:
        os.environ[recording.VARIABLE] = folder  # noqa: TID251
        code = run_groups(asked, control_plane, jobs, "-p", "tests.ci.recording")
        # What was changed while the tests ran is not what they saw.
        after = verified.contents(project, project.files, control_plane)
        changed = {path for path in before if before[path] != after.get(path)}
        records = verified.read()
        # What was interrupted has shown nothing of the tests that did not run.
        ended = code in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        for group in asked:
            if ended and group != groups.E2E:
                _record(project, group, Path(folder), control_plane, changed, records)
    verified.write(records)
    return code


def _record(
    project: Project,
    group: str,
    folder: Path,
    control_plane: Path | None,
    changed: set[str],
    records: dict[str, Record],
) -> None:
    found = recording.reached(folder, group)
    kept = Reached(
        frozenset(found.modules & project.files), found.programs, frozenset(found.files & project.files) - OWN
    )
    why = recording.unproven(folder, group)
    if not why and changed & (verified.covered(project, group, kept) | {c for c in changed if ":" in c}):
        why = "files that it reaches changed while it ran"
    if why:
        _say(f"not recorded: {group}, {why}")
        return
    records[group] = Record(clock.now(), _digest(project, group, kept, control_plane), kept)
    _say(f"recorded: {group}, in {verified.RECORDS.relative_to(ROOT)}; commit it")


def record_sweeps(digest: str) -> None:
    """They were green; `digest` is what was there when they began."""
    if sweeps_digest(Project()) != digest:
        _say("not recorded: sweeps, files of pages changed while they ran")
        return
    records = verified.read()
    verified.write({**records, groups.SWEEPS: Record(clock.now(), digest)})
    _say(f"recorded: sweeps, in {verified.RECORDS.relative_to(ROOT)}; commit it")


def sweeps_digest(project: Project) -> str:
    return _digest(project, groups.SWEEPS, Reached(), None)


def _digest(project: Project, group: str, reached: Reached, control_plane: Path | None) -> str:
    plane = None if group == groups.SWEEPS else control_plane
    return verified.digest(verified.contents(project, verified.covered(project, group, reached), plane))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
