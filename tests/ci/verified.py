"""What a green run stands for: a digest of all that a group of tests reaches, and for how long it does.

`tests/cluster/verified.json` has, by group, when it was green, the digest of what it reached then, and how to find that
again: the modules that its tests executed, the programs that they started and the files that they opened.

The digest is taken anew of today's tree. It covers those modules, what they import (and so on), the migrations of
their apps with what these register, the settings, the tests with their helpers, and what all tests rest on. Before a
test reaches another module, one that it reached before must have been changed to import it, and that changes the digest.
What this misses, such as a module found by its name alone, waits for seven days at most. The digest knows contents and relative paths, neither times nor places.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from tests.ci import groups
from tests.ci.imports import ROOT, Project, imported_names

RECORDS = ROOT / "tests" / "cluster" / "verified.json"
LONGEST = timedelta(days=7)
# What every test rests on.
FIXED = ("requirements.lock", "pyproject.toml", ".ci/run")
# The versions and the behaviour of the control plane, in the folder of its scripts and in that of its definitions.
CONTROL_PLANE = ("build", "up", "stages.yaml", "nodes.yaml", "modules/*/go.mod", "../crds/*/*")
SETTINGS = "portal/settings/__init__.py"
# A program that has all of the portal in it.
WHOLE = "manage.py"


@dataclass(frozen=True)
class Reached:
    """What the tests of a group have executed, started and opened; paths are relative to the root."""

    modules: frozenset[str] = field(default_factory=frozenset)
    programs: frozenset[str] = field(default_factory=frozenset)
    files: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Record:
    """A green run."""

    at: datetime
    digest: str
    reached: Reached = Reached()


@dataclass(frozen=True)
class Decision:
    group: str
    runs: bool
    why: str


def plan(
    asked: Iterable[str],
    records: Mapping[str, Record],
    digests: Mapping[str, str],
    *,
    now: datetime,
    everything: bool = False,
) -> list[Decision]:
    """For each group whether it runs; `digests` are today's, of the groups that have a record."""
    return [_decision(group, records.get(group), digests.get(group), now, everything) for group in asked]


def _decision(
    group: str, record: Record | None, digest: str | None, now: datetime, everything: bool
) -> Decision:
    if everything:
        return Decision(group, True, "everything was asked for")
    if group == groups.E2E:
        return Decision(group, True, "always runs")
    if record is None:
        return Decision(group, True, "no green run is recorded")
    age = now - record.at
    if not timedelta(0) <= age <= LONGEST:
        return Decision(group, True, f"its green run is {told(age)} old")
    if digest != record.digest:
        return Decision(group, True, "what it reaches has changed")
    return Decision(group, False, f"was green {told(age)} ago with all that it reaches as it is now")


def told(age: timedelta) -> str:
    hours = age // timedelta(hours=1)
    return f"{hours // 24} d {hours % 24} h"


def covered(project: Project, group: str, reached: Reached) -> set[str]:
    """All files of the project that the digest of a group is taken of."""
    if group == groups.SWEEPS:
        shown = {path for path in project.files if groups.shown(path)}
        return shown | groups.helpers(project, groups.sweep_files(project)) | set(FIXED)
    modules = {path for path in project.executed(reached.modules) if not path.startswith("tests/")}
    for program in reached.programs:
        modules |= program_files(project, program)
    apps = {path.partition("/")[0] for path in modules if "/" in path}
    # Django runs these before the first test: they register what is called later.
    modules |= project.executed([SETTINGS, *(f"{app}/apps.py" for app in apps)])
    modules |= {
        path
        for path in project.files
        if path.split("/")[1:2] == ["migrations"] and path.split("/")[0] in apps
    }
    tests = groups.helpers(project, groups.cluster_files(project)[group])
    # What was recorded and is there no more is missing in the digest, which is a change.
    return modules | tests | reached.modules | reached.files | set(FIXED)


def program_files(project: Project, program: str) -> set[str]:
    """What a started program may reach: its module or its package as a whole, all that this imports, and files beside these."""
    if program == WHOLE:
        return {path for path in project.files if not path.startswith(("tests/", "docs/", "benchmarks/"))}
    folder = f"{program.replace('.', '/')}/"
    own = {path for path in project.files if path.startswith(folder) and path.endswith(".py")}
    found = project.closure([*project.modules_of(program), *own])
    folders = {path.rpartition("/")[0] for path in found}
    beside = (path for path in project.files if path.rpartition("/")[0] in folders)
    return found | {path for path in beside if not path.endswith(".py")}


def programs(arguments: Iterable[object]) -> set[str]:
    """The project's programs in a command line of Python: `-m NAME`, `manage.py`, or what `-c` imports."""
    words = [str(each) for each in arguments]
    found = {WHOLE} if any(word.endswith("manage.py") for word in words) else set()
    for flag, value in pairwise(words):
        if flag == "-m":
            found.add(value)
        elif flag == "-c":
            try:
                found |= set(imported_names(ast.parse(value), ""))
            except SyntaxError:  # A shell has a -c of its own.
                continue
    return found


def contents(project: Project, paths: Iterable[str], control_plane: Path | None = None) -> dict[str, str]:
    """A digest of each file's content by its path; empty for one that is missing."""
    found = {path: _content(project.root / path) for path in paths}
    if control_plane is not None:
        for pattern in CONTROL_PLANE:
            folder, inner = control_plane, pattern
            if pattern.startswith("../"):
                folder, inner = control_plane.parent, pattern.removeprefix("../")
            for path in folder.glob(inner):
                name = path.relative_to(folder).as_posix()
                found[f"control plane: {name}"] = _content(path)
    return found


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def digest(of: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(of.items())).encode()).hexdigest()


def read(path: Path = RECORDS) -> dict[str, Record]:
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {
        group: Record(
            datetime.fromisoformat(each["at"]),
            each["digest"],
            Reached(*(frozenset(each[name]) for name in ("modules", "programs", "files"))),
        )
        for group, each in stored.items()
    }


def write(records: Mapping[str, Record], path: Path = RECORDS) -> None:
    stored = {
        group: {"at": record.at.isoformat(timespec="seconds"), "digest": record.digest}
        | {name: sorted(found) for name, found in asdict(record.reached).items()}
        for group, record in sorted(records.items())
    }
    path.write_text(json.dumps(stored, indent=1) + "\n")
