"""A plugin of pytest that runs only the tests named in a file: those that reach a change or a planted fault."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "PORTAL_TEST_CHOSEN"


def write(
    path: Path,
    *,
    tests: Iterable[str],
    files: Iterable[str] = (),
    known: Iterable[str],
    may_be_none: bool = False,
) -> dict[str, str]:
    """Write down which tests run. Returns the environment variables with which the plugin finds the file.

    `known` are all tests of the map. With `may_be_none`, a run in which no test is left passes: all that were chosen may belong to
    another tier.
    """
    said = {
        "tests": sorted(tests),
        "files": sorted(files),
        "known": sorted(known),
        "may_be_none": may_be_none,
    }
    path.write_text(json.dumps(said))
    return {VARIABLE: str(path)}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    said = _said()
    tests, files, known = (set(said[name]) for name in ("tests", "files", "known"))
    kept, left_out = [], []
    for item in items:
        (kept if keeps(item.nodeid, tests, files, known) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and _said()["may_be_none"]:
        session.exitstatus = pytest.ExitCode.OK


def keeps(test: str, tests: Collection[str], files: Collection[str], known: Collection[str]) -> bool:
    """A test that the map does not know is new or has another name since: it runs where its file was asked for."""
    return test in tests or file_of(test) in files or test not in known


def file_of(test: str) -> str:
    return test.partition("::")[0]


def _said() -> dict[str, Any]:
    said: dict[str, Any] = json.loads(Path(os.environ[VARIABLE]).read_text())  # noqa: TID251
    return said
