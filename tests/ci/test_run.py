"""`.ci/run` itself, in a folder where every command it calls is a stub that says what it was asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ci.imports import ROOT

STUB = '#!/bin/bash\necho "$(basename "$0") $*" >> "$CALLS"\n'
# The table is made by Python; what runs is asked of $DUE.
PYTHON = f"""{STUB}case "$*" in
  tests/ci/steps.py*) exec python3 "$@" ;;
  *" due "*) echo "$DUE" ;;
  *" digest") echo 1234 ;;
  *free_ports) echo 17000 ;;
esac
"""


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root, self.calls = root / "checkout", root / "calls"
        for path in (".ci/run", ".ci/budget", "tests/ci/steps.py"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)
        self.stub(".venv/bin/python", PYTHON)
        self.stub("bin/make", STUB + '[ "$1" != "${FAILS:-}" ] || exit 3\n')
        self.stub("bin/prometheus", STUB)
        for script in ("build", "down"):
            self.stub(f"plane/{script}", STUB)
        self.stub("plane/up", STUB + 'echo "$1/kubeconfig"\n')

    def stub(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run(self, *steps: str, **variables: str) -> subprocess.CompletedProcess[str]:
        self.calls.write_text("")
        environment = {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",  # noqa: TID251
            "HOME": str(self.root),
            "CALLS": str(self.calls),
            "DUE": "",
            "PORTAL_TEST_CLUSTER_UP": str(self.root / "plane" / "up"),
            **variables,
        }
        command = ["bash", str(self.root / ".ci" / "run"), *steps]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def called(self, word: str) -> list[str]:
        return [line for line in self.calls.read_text().splitlines() if word in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_each_step_has_its_row(checkout):
    done = checkout.run("check", "processes", "demo")
    assert done.returncode == 0, done.stderr
    assert checkout.called("make") == ["make check", "make processes", "make demo ONCE=1"]
    rows = [line.split()[0] for line in done.stdout.splitlines()[-5:]]
    assert rows == ["step", "check", "processes", "demo", "in"]


def test_after_a_failure_nothing_runs_and_the_table_names_it(checkout):
    done = checkout.run("check", "processes", "demo", FAILS="processes")
    assert done.returncode == 3
    assert checkout.called("make") == ["make check", "make processes"]
    *_, check, failed, _ = done.stdout.splitlines()
    assert check.split()[0] == "check"
    assert "FAILED" not in check
    assert failed.endswith("FAILED (3)")


def test_what_is_missing_of_the_control_plane_is_built_before_the_tests(checkout):
    assert checkout.run("build", "test").returncode == 0
    order = [line.split()[0] for line in checkout.called("") if line.startswith(("build", "make"))]
    assert order == ["build", "make"]


def test_the_groups_that_are_due_run_on_clusters_that_end(checkout):
    done = checkout.run("cluster", DUE="keda e2e")
    assert done.returncode == 0, done.stderr
    (run,) = checkout.called(" run ")
    assert run.endswith("run -n 3 keda e2e")
    assert len(checkout.called("up ")) == len(checkout.called("down ")) == 3


def test_everything_is_asked_for_by_name(checkout):
    checkout.run("cluster", DUE="e2e", CLUSTER="all")
    assert [line.partition(" due ")[2] for line in checkout.called(" due ")] == [
        "--all contract kubeflow keda scheduler e2e"
    ]


def test_clusters_that_are_there_are_neither_built_nor_started(checkout):
    done = checkout.run("build", "cluster", DUE="contract e2e", PORTAL_TEST_KUBECONFIG="one:two")
    assert done.returncode == 0, done.stderr
    assert checkout.called("build") + checkout.called("up ") == []
    (run,) = checkout.called(" run ")
    assert run.endswith("run -n 2 contract e2e")


def test_without_a_control_plane_the_rest_passes(checkout):
    done = checkout.run("build", "cluster", PORTAL_TEST_CLUSTER_UP="nowhere/up")
    assert done.returncode == 0
    assert "were not run" in done.stdout
    assert checkout.called(" run ") == []


@pytest.fixture
def bare(checkout):
    """The PATH of a machine that has what `.ci/run` itself calls, no browser, and no network for apt-get."""
    for name in (
        "awk",
        "bash",
        "cat",
        "dirname",
        "basename",
        "getconf",
        "id",
        "mktemp",
        "python3",
        "rm",
        "tail",
    ):
        (checkout.root / "bin" / name).symlink_to(shutil.which(name))
    for name in ("apt-get", "sudo"):
        checkout.stub(f"bin/{name}", STUB + 'echo "no network"; exit 100\n')
    return str(checkout.root / "bin")


def test_a_browser_that_is_here_will_do_where_nothing_can_be_installed(checkout, bare):
    checkout.stub("bin/chromium", STUB)
    done = checkout.run("browser", PATH=bare)
    assert (done.returncode, checkout.called("chromium --version")) == (
        0,
        ["chromium --version --no-sandbox"],
    )


def test_without_any_browser_it_says_why_none_was_installed(checkout, bare):
    done = checkout.run("browser", PATH=bare)
    assert (done.returncode, "no network" in done.stdout) == (1, True)


def test_sweeps_that_a_green_run_stands_for_are_left_out(checkout):
    assert checkout.run("matrix").returncode == 0
    (swept,) = checkout.called("make")
    assert swept.startswith("make matrix PYTEST_ARGS=")
    assert "-m 'matrix and not cluster and not sweep'" in swept
    assert checkout.called(" record ") == []


def test_sweeps_that_are_due_are_recorded_when_green_where_that_is_asked_for(checkout):
    assert checkout.run("matrix", DUE="sweeps").returncode == 0
    assert checkout.called(" record ") == []
    assert checkout.run("matrix", DUE="sweeps", RECORD="1").returncode == 0
    assert len(checkout.called(" record 1234")) == 1
    assert checkout.run("matrix", DUE="sweeps", RECORD="1", FAILS="matrix").returncode == 3
    assert checkout.called(" record ") == []


def test_groups_are_recorded_where_that_is_asked_for(checkout):
    checkout.run("cluster", DUE="e2e", RECORD="1")
    (run,) = checkout.called(" run ")
    assert run.endswith("run --record -n 2 e2e")


def test_a_step_that_is_unknown_is_refused_before_any_runs(checkout):
    done = checkout.run("check", "lunch")
    assert done.returncode == 2
    assert "no such step: lunch" in done.stderr
    assert checkout.called("make") == []
