"""A plugin of pytest that leaves out all tests but those that `tests.mutants.changed` has chosen."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

import pytest

VARIABLE = "PORTAL_TEST_CHOSEN"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    said = json.loads(Path(os.environ[VARIABLE]).read_text())  # noqa: TID251
    tests, files, known = (set(said[name]) for name in ("tests", "files", "known"))
    functions = {_function(test) for test in tests}
    kept, left_out = [], []
    for item in items:
        (kept if keeps(item.nodeid, tests, files, known, functions) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """All that were chosen may be of another tier."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def keeps(
    test: str,
    tests: Collection[str],
    files: Collection[str],
    known: Collection[str],
    functions: Collection[str],
) -> bool:
    """A test that is not in the map is another case of a function that is: it runs with its siblings."""
    if test in tests or test.partition("::")[0] in files:
        return True
    return test not in known and _function(test) in functions


def _function(test: str) -> str:
    return test.partition("[")[0]
