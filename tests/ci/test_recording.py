"""What a run of pytest records of its groups, tried on a project of two modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.imports import ROOT
from tests.ci.recording import VARIABLE, reached, unproven
from tests.ci.verified import Reached

PROJECT = {
    "tests/__init__.py": "",
    "reckon/__init__.py": "",
    "reckon/sums.py": "RATE = 1\ndef add(a, b):\n    return a + b\n",
    "reckon/apart.py": "def unused():\n    return 1\n",
    "reckon/later.py": "HERE = 1\n",
    "reckon/shared.py": "def made():\n    return 1\n",
    "tests/contract/__init__.py": "",
    "tests/contract/table.txt": "",
    "tests/contract/panel.html": "",
    "tests/contract/test_sums.py": """
import subprocess, sys, pathlib
import pytest
from reckon import apart, sums
from reckon.shared import made

@pytest.fixture(scope="module")
def stands():
    return made()

def test_adds(stands):
    assert sums.add(1, 2) == 3

def test_of_others():
    pytest.skip("this cluster serves none")

def test_starts():
    subprocess.run([sys.executable, "-m", "reckon.apart"], check=True)
    pathlib.Path(__file__).with_name("table.txt").read_text()
    pathlib.Path(__file__).with_name("panel.html").read_text()
""",
    "tests/controller/__init__.py": "",
    "tests/controller/test_a.py": """
import pytest

def test_imports():
    from reckon import later
    assert later.HERE

def test_skipped():
    pytest.skip("no program to try it with")
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, text in PROJECT.items():
        file = tmp_path / "project" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    shutil.copytree(ROOT / "tests" / "ci", tmp_path / "project" / "tests" / "ci")
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.ci.recording", "-p", "no:django"]
    command += ["-p", "no:cacheprovider", "-n", "1", "tests/contract", "tests/controller"]
    done = subprocess.run(
        command,
        cwd=tmp_path / "project",
        env={**os.environ, VARIABLE: str(recorded)},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return recorded


@pytest.mark.matrix
def test_modules_programs_and_files_are_recorded_by_group(folder):
    shared = {"reckon/shared.py"}
    assert reached(folder, "contract") == Reached(
        frozenset({"reckon/sums.py", *shared}),
        frozenset({"reckon.apart"}),
        frozenset({"tests/contract/panel.html", "tests/contract/table.txt"}),
    )
    # A table may be kept by the process that another group has read it in; a template is read again.
    assert reached(folder, "scheduler") == Reached(
        frozenset({"reckon/later.py", *shared}), frozenset(), frozenset({"tests/contract/table.txt"})
    )
    assert unproven(folder, "contract") == ""
    # A test that was skipped has shown nothing, but where the control plane has nothing to show.
    assert unproven(folder, "scheduler") == "1 did not pass, such as tests/controller/test_a.py::test_skipped"
    assert unproven(folder, "keda") == "none of its tests ended"
