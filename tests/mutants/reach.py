"""A plugin of pytest: which tests reach which lines of the modules that faults are planted in.

`python -m pytest -p tests.mutants.reach`, with the folder for what is recorded in PORTAL_TEST_REACH.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants.faults import ROOT, modules

# Tests by the name of what is set up once for several of them.
ASKED = "asked.json"


def shared(module: str, fixture: str) -> str:
    """The context of a fixture that stands for a module, or without one for the whole session."""
    return f"@{module}::{fixture}"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # With pytest-xdist the controller runs no test.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(_Recorder(), "reach-recorder")


class _Recorder:
    def __init__(self) -> None:
        self._folder = folder = Path(os.environ["PORTAL_TEST_REACH"])  # noqa: TID251
        self._test = ""
        files = [str(ROOT / module) for module in modules()]
        self._coverage = coverage.Coverage(
            data_file=folder / "reach", data_suffix=True, include=files, config_file=False
        )
        self._coverage.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Who asks for what is set up for several tests: what that reaches counts for each of them."""
        asked: dict[str, list[str]] = {}
        for item in session.items:
            for name in getattr(item, "fixturenames", ()):
                for owner in ("", item.nodeid.partition("::")[0]):
                    asked.setdefault(shared(owner, name), []).append(item.nodeid)
        (self._folder / ASKED).write_text(json.dumps(asked))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[Any]:
        if fixturedef.scope == "function":
            return (yield)
        module = request.node.nodeid.partition("::")[0] if fixturedef.scope in {"module", "class"} else ""
        self._coverage.switch_context(shared(module, fixturedef.argname))
        try:
            return (yield)
        finally:
            self._coverage.switch_context(self._test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test = item.nodeid
        self._coverage.switch_context(self._test)
        try:
            return (yield)
        finally:
            self._test = ""
            self._coverage.switch_context(self._test)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
