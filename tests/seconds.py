"""Where the time of a run of the tests went, printed when it has ended: core-seconds by folder, and the slowest tests."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

SLOWEST = 20


class CoreSeconds:
    """Notes on each report what the processor did since the one before it: in this process and in children that ended.

    The servers that all workers share end with the run; what they did counts for no test.
    """

    def __init__(self) -> None:
        self._until = _processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[Any]:
        report = yield
        now = _processor_seconds()
        report.core_seconds, self._until = now - self._until, now
        return report


def _processor_seconds() -> float:
    return sum(os.times()[:4])


class Seconds:
    """What each test took with its set-up and its end, whichever worker ran it.

    A fixture of a module or of the session counts for the test that it was first set up for.
    """

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self._cores: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._of[report.nodeid] += report.duration
        self._cores[report.nodeid] += getattr(report, "core_seconds", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._of) <= SLOWEST:
            return
        cores, seconds, cases = Counter(), Counter(), Counter()
        for test, took in self._of.items():
            cores[_group(test)] += self._cores[test]
            seconds[_group(test)] += took
            cases[_group(test)] += 1
        terminalreporter.section("core-seconds and seconds of each folder (cases)", sep="-")
        told = [
            f"{group} {core:.0f}, {seconds[group]:.0f} ({cases[group]})"
            for group, core in cores.most_common()
        ]
        terminalreporter.line(
            f"{cores.total():.0f}, {seconds.total():.0f} in all ({cases.total()}): {'; '.join(told)}"
        )
        terminalreporter.section(f"slowest {SLOWEST} by core-seconds", sep="-")
        for test, core in self._cores.most_common(SLOWEST):
            terminalreporter.line(f"{core:7.1f}, {self._of[test]:7.1f}  {test}")


def _group(test: str) -> str:
    """The folder under tests/."""
    folders = test.partition("::")[0].split("/")
    return folders[1] if len(folders) > 2 else folders[-1]
