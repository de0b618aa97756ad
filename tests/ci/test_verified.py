"""Which groups of tests run: what they reach has changed, or their green run is too old."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.ci import groups, verified
from tests.ci.imports import Project
from tests.ci.verified import Decision, Reached, Record

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
FILES = {
    "pyproject.toml": "",
    "requirements.lock": "a==1",
    ".ci/run": "",
    "reckon/__init__.py": "",
    "reckon/sums.py": "from reckon import rates\ndef add(): return rates.RATE\ndef idle(): from reckon import lazy",
    "reckon/lazy.py": "from reckon import behind",
    "reckon/behind.py": "",
    "reckon/rates.py": "RATE = 1",
    "reckon/apart.py": "",
    "reckon/migrations/0001_first.py": "",
    "reckon/table.yaml": "",
    "reckon/apps.py": "def ready():\n    from reckon import registered",
    "reckon/registered.py": "",
    "portal/settings/__init__.py": "",
    "server/__init__.py": "",
    "server/__main__.py": "from server import loop",
    "server/loop.py": "",
    "server/nodes.yaml": "",
    "shop/pages/till.py": "",
    "shop/services.py": "",
    "templates/till.html": "",
    "static/till.css": "",
    "tests/conftest.py": "from tests.helping import help",
    "tests/helping.py": "def help(): pass",
    "tests/unused.py": "",
    "tests/contract/conftest.py": "REAL = pytest.mark.cluster",
    "tests/contract/test_sums.py": "",
    "tests/contract/golden/sums.json": "",
    "tests/contract/test_pytorchjob_sums.py": "",
    "tests/web/test_sweep.py": "marks = pytest.mark.matrix, pytest.mark.sweep",
}
REACHED = Reached(
    frozenset({"reckon/sums.py"}), frozenset({"server"}), frozenset({"tests/contract/golden/sums.json"})
)


class Tree(Project):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.plane = root.parent / "plane" / "scripts"

    def put(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def digest(self, group: str = "contract", reached: Reached = REACHED) -> str:
        project = Project(self.root)
        return verified.digest(
            verified.contents(project, verified.covered(project, group, reached), self.plane)
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path / "checkout")
    for path, text in FILES.items():
        tree.put(path, text)
    for path in ("build", "up", "stages.yaml", "nodes.yaml", "modules/etcd/go.mod", "../crds/keda/one.yaml"):
        (tree.plane / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.plane / path).write_text("")
    subprocess.run(["git", "init", "-q"], cwd=tree.root, check=True)
    return tree


REACHED_FILES = [
    "reckon/sums.py",
    "reckon/rates.py",
    "reckon/lazy.py",
    "reckon/migrations/0001_first.py",
    "reckon/apps.py",
    "reckon/registered.py",
    "portal/settings/__init__.py",
    "server/loop.py",
    "server/nodes.yaml",
    "tests/conftest.py",
    "tests/helping.py",
    "tests/contract/conftest.py",
    "tests/contract/test_sums.py",
    "tests/contract/golden/sums.json",
    "requirements.lock",
    "pyproject.toml",
    ".ci/run",
    "../plane/scripts/build",
    "../plane/scripts/up",
    "../plane/scripts/stages.yaml",
    "../plane/scripts/nodes.yaml",
    "../plane/scripts/modules/etcd/go.mod",
    "../plane/crds/keda/one.yaml",
]


def test_a_change_of_anything_that_is_reached_changes_the_digest(tree):
    before, same = tree.digest(), []
    for path in REACHED_FILES:
        kept = (tree.root / path).read_text()
        tree.put(path, f"{kept}\n# changed")
        same += [path] if tree.digest() == before else []
        tree.put(path, kept)
    assert same == []
    assert tree.digest() == before


def test_a_change_of_what_is_not_reached_does_not(tree):
    before = tree.digest()
    for path in ("reckon/apart.py", "reckon/behind.py", "shop/services.py", "tests/unused.py", "templates/till.html",
                 "tests/contract/test_pytorchjob_sums.py", "tests/web/test_sweep.py"):  # fmt: skip
        tree.put(path, "# changed")
    assert tree.digest() == before


def test_a_module_that_is_newly_imported_or_missing_changes_the_digest(tree):
    before = tree.digest()
    tree.put("reckon/sums.py", "from reckon import rates, apart\ndef add(): return rates.RATE")
    with_another = tree.digest()
    tree.put("reckon/apart.py", "# of what is now imported")
    assert len({before, with_another, tree.digest()}) == 3
    tree.put("reckon/sums.py", FILES["reckon/sums.py"])
    (tree.root / "reckon" / "rates.py").unlink()
    assert tree.digest() != before


def test_a_digest_knows_neither_the_place_nor_the_time(tree, tmp_path):
    shutil.copytree(tmp_path / "checkout", tmp_path / "away" / "checkout", copy_function=shutil.copyfile)
    other = Tree(tmp_path / "away" / "checkout")
    other.plane = tree.plane
    assert other.digest() == tree.digest()


def test_sweeps_are_over_what_pages_are_made_of(tree):
    digests = [tree.digest("sweeps")]
    for path in ("templates/till.html", "static/till.css", "shop/pages/till.py", "tests/web/test_sweep.py"):
        tree.put(path, f"{FILES[path]}# changed")
        digests.append(tree.digest("sweeps"))
    assert len(set(digests)) == 5
    tree.put("shop/services.py", "# changed")
    assert tree.digest("sweeps") == digests[-1]


def test_a_program_of_the_whole_portal_reaches_all_of_it(tree):
    before = tree.digest(reached=Reached(programs=frozenset({"manage.py"})))
    tree.put("templates/till.html", "changed")
    assert tree.digest(reached=Reached(programs=frozenset({"manage.py"}))) != before


def test_programs_are_read_from_command_lines():
    assert verified.programs(["python", "-m", "devcluster", "--port", "0"]) == {"devcluster"}
    assert verified.programs(["python", Path("/x/manage.py"), "up"]) == {"manage.py"}
    assert verified.programs(["python", "-c", "from logs import store"]) == {"logs.store"}
    assert verified.programs(["sh", "-c", "exec sleep 1 && x"]) == set()


def planned(
    *, age: timedelta = timedelta(days=2), digest: str = "a", everything: bool = False
) -> list[Decision]:
    records = {group: Record(NOW - age, "a") for group in ("keda", "e2e")}
    today = dict.fromkeys(records, digest)
    return verified.plan(["contract", "keda", "e2e"], records, today, now=NOW, everything=everything)


@pytest.mark.parametrize(
    ("how", "runs"),
    [
        ({}, False),
        ({"age": timedelta(days=7)}, False),
        ({"age": timedelta(days=7, seconds=1)}, True),
        ({"age": timedelta(hours=-1)}, True),
        ({"digest": "b"}, True),
        ({"everything": True}, True),
    ],
)
def test_a_group_is_skipped_only_for_a_green_run_of_the_same_within_seven_days(how, runs):
    contract, keda, e2e = planned(**how)
    assert keda.runs is runs
    assert contract.runs  # It has no record.
    assert e2e.runs  # It always does.


def test_a_skipped_group_tells_how_old_its_run_is():
    _, keda, _ = planned(age=timedelta(days=2, hours=5, minutes=59))
    assert keda.why.startswith("was green 2 d 5 h ago")


def test_records_are_read_as_they_were_written(tmp_path):
    records = {"keda": Record(NOW, "a", REACHED), "sweeps": Record(NOW, "b")}
    verified.write(records, tmp_path / "verified.json")
    assert verified.read(tmp_path / "verified.json") == records
    assert verified.read(tmp_path / "none.json") == {}


def test_the_records_of_this_checkout_can_be_read():
    assert set(verified.read()) <= {*groups.GROUPS, groups.SWEEPS}
