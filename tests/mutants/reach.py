"""A plugin of pytest: which tests reach which lines of the modules that faults are planted in.

`python -m pytest -p tests.mutants.reach`, with the folder for what is recorded in PORTAL_TEST_REACH.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tests.mutants.faults import ROOT, modules


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # With pytest-xdist the controller runs no test.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(_Recorder(), "reach-recorder")


class _Recorder:
    def __init__(self) -> None:
        folder = Path(os.environ["PORTAL_TEST_REACH"])  # noqa: TID251
        files = [str(ROOT / module) for module in modules()]
        self._coverage = coverage.Coverage(
            data_file=folder / "reach", data_suffix=True, include=files, config_file=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
