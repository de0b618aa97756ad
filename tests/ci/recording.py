"""A plugin of pytest: which modules, programs and files the tests of each group reach, and whether they passed.

`python -m pytest -p tests.ci.recording`, with the folder for what is recorded in PORTAL_TEST_RECORD. A module counts
where a test executes a line of it; that it was imported before the first test does not. What is set up for several tests, and
what a started program may do, counts for every group that it may count for.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest
from django.conf import settings
from django.template.autoreload import reset_loaders

from tests.ci.groups import group_of
from tests.ci.imports import ROOT
from tests.ci.verified import Reached, programs

VARIABLE = "PORTAL_TEST_RECORD"
# What belongs to no group alone: fixtures that outlive a test, and what is opened between tests.
SHARED = "@shared"
OUTCOMES = "outcomes.json"
# What a test is skipped for that depends on the control plane alone, which is part of the digest.
OF_THE_CLUSTER = (
    "this cluster serves",
    "this cluster does not serve",
    "is registered on this cluster",
    "this KEDA has no",
)
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.exec"}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    folder = Path(os.environ[VARIABLE])  # noqa: TID251
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(folder), "group-outcomes")
    # With pytest-xdist the controller runs no test.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Recorder(folder), "group-recorder")


class Outcomes:
    """Tests of each group that did not pass.

    A test that was skipped has shown nothing, unless there is nothing to show on this control plane.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._passed: dict[str, set[str]] = defaultdict(set)
        self._others: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        group = group_of(report.nodeid.partition("::")[0])
        if report.failed or (
            report.skipped and not hasattr(report, "wasxfail") and not _of_the_cluster(report)
        ):
            self._others[group].add(report.nodeid)
        elif report.when == "call":
            self._passed[group].add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._others[group_of(report.nodeid.partition("::")[0])].add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        told = {
            group: {"passed": len(self._passed[group]), "others": sorted(self._others[group])}
            for group in {*self._passed, *self._others}
        }
        (self._folder / OUTCOMES).write_text(json.dumps(told))


def _of_the_cluster(report: pytest.TestReport) -> bool:
    return any(words in str(report.longrepr) for words in OF_THE_CLUSTER)


class Recorder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = SHARED
        # Whose templates are kept.
        self._group = ""
        self._programs: dict[str, set[str]] = defaultdict(set)
        self._files: dict[str, set[str]] = defaultdict(set)
        self._coverage = coverage.Coverage(
            data_file=None,
            include=[f"{ROOT}/*"],
            omit=[f"{ROOT}/tests/*", f"{ROOT}/.venv/*"],
            config_file=False,
        )
        self._coverage.start()
        self._ended = False
        # A hook of Python's: what is told to it cannot be taken back, so it ends by itself.
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._ended:
            return
        if event == "open":
            self._opened(arguments[0], arguments[2])
        elif event in STARTS:
            self._programs[self._context] |= programs(arguments[1])

    def _opened(self, path: object, flags: object) -> None:
        """Files of the project alone; those of Python are known by what is executed."""
        if not isinstance(path, str) or (isinstance(flags, int) and flags & os.O_ACCMODE):
            return
        whole = path if path.startswith("/") else f"{ROOT}/{path}"
        if whole.startswith(f"{ROOT}/") and not whole.endswith((".py", ".pyc")):
            # A process may read a file once, for whoever asks first, and keep it for all others; not so templates (below).
            context = self._context if whole.endswith(".html") else SHARED
            self._files[context].add(whole.removeprefix(f"{ROOT}/"))

    def _switch(self, context: str) -> None:
        self._context = context
        self._coverage.switch_context(context)

    def pytest_collection_finish(self) -> None:
        self._coverage.switch_context("@collected")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        before = self._context
        if fixturedef.scope != "function":
            self._switch(SHARED)
        try:
            return (yield)
        finally:
            self._switch(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        group = group_of(item.nodeid.partition("::")[0])
        if group != self._group:
            self._group = group
            if settings.configured:
                reset_loaders()
        self._switch(group)
        try:
            return (yield)
        finally:
            # Threads that outlive a test go on for the next one as well.
            self._switch(SHARED)

    def pytest_sessionfinish(self) -> None:
        self._ended = True
        self._coverage.stop()
        told = {
            "modules": self._executed(),
            "programs": {context: sorted(found) for context, found in self._programs.items()},
            "files": {context: sorted(found) for context, found in self._files.items()},
        }
        (self._folder / f"reached-{os.getpid()}.json").write_text(json.dumps(told))

    def _executed(self) -> dict[str, list[str]]:
        data, found = self._coverage.get_data(), defaultdict(list)
        for file in data.measured_files():
            for context in {each for contexts in data.contexts_by_lineno(file).values() for each in contexts}:
                path = Path(file).relative_to(ROOT).as_posix()
                # The tables of all apps are made for all tests; a group has the migrations of its own apps.
                if "/migrations/" not in path:
                    found[context].append(path)
        return found


def reached(folder: Path, group: str) -> Reached:
    """What all workers have recorded of a group."""
    parts = [json.loads(path.read_text()) for path in folder.glob("reached-*.json")]
    return Reached(
        *(
            frozenset(
                each for part in parts for context in (group, SHARED) for each in part[kind].get(context, ())
            )
            for kind in ("modules", "programs", "files")
        )
    )


def unproven(folder: Path, group: str) -> str:
    """Why the run stands for nothing; empty where all of the group's tests passed."""
    outcomes = folder / OUTCOMES
    told = json.loads(outcomes.read_text()).get(group) if outcomes.exists() else None
    if told is None or not told["passed"]:
        return "none of its tests ended"
    others = told["others"]
    return f"{len(others)} did not pass, such as {others[0]}" if others else ""
