"""Where the time of a run of the tests went, printed when it has ended: seconds by group, and the slowest tests."""

from __future__ import annotations

from collections import Counter

import pytest

SLOWEST = 20


class Seconds:
    """What each test took with its set-up and its end, whichever worker ran it.

    A fixture of a module or of the session counts for the test that it was first set up for.
    """

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._of[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._of) <= SLOWEST:
            return
        seconds, cases = Counter(), Counter()
        for test, took in self._of.items():
            seconds[_group(test)] += took
            cases[_group(test)] += 1
        terminalreporter.section("seconds of each group (cases)", sep="-")
        told = [f"{group} {took:.0f} ({cases[group]})" for group, took in seconds.most_common()]
        terminalreporter.line(f"{seconds.total():.0f} in all: {', '.join(told)}")
        terminalreporter.section(f"slowest {SLOWEST}", sep="-")
        for test, took in self._of.most_common(SLOWEST):
            terminalreporter.line(f"{took:7.1f}  {test}")


def _group(test: str) -> str:
    """The folder under tests/."""
    folders = test.partition("::")[0].split("/")
    return folders[1] if len(folders) > 2 else folders[-1]
