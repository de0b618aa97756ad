"""Which tests a change runs, on a small project whose map is written by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ci.imports import Project
from tests.mutants.changed import Repository, chosen, over
from tests.mutants.choosing import Choice
from tests.mutants.chosen import keeps
from tests.mutants.lines import Hunk, hunks, moved
from tests.mutants.reached import Map

SUMS = """from shop import rates

LIMIT = 3


def price(cents):
    if cents > LIMIT:
        return cents * rates.RATE
    return cents


def free():
    return 0


class Till:
    kind = "small"

    def open(self):
        return self.kind
"""
SUMS_TESTS = {7: ["t::cheap", "t::dear"], 8: ["t::dear"], 9: ["t::cheap"], 13: ["@::gift"], 20: ["t::till"]}
FILES = {
    "shop/__init__.py": "",
    "shop/sums.py": SUMS,
    "shop/rates.py": "RATE = 2\n",
    "shop/desk.py": "from shop import sums\n\n\ndef sell():\n    return sums.Till()\n",
    "shop/stock.yaml": "",
    "shop/store.py": "STOCK = 'stock.yaml'\n\n\ndef read():\n    return STOCK\n",
    "shop/migrations/0001_first.py": "",
    "templates/till.html": "",
    "templates/other.html": "",
    "pyproject.toml": "",
    "README.md": "",
    ".ci/run": "",
    "tests/__init__.py": "",
    "tests/conftest.py": "from tests.waiting import wait\n",
    "tests/waiting.py": "def wait(): pass\n",
    "tests/making.py": "def make(): pass\n",
    "tests/shop/conftest.py": "",
    "tests/shop/test_a.py": "from tests.making import make\n",
    "tests/shop/test_b.py": "",
    "tests/shop/golden/a.json": "",
    "tests/web/test_c.py": "marks = pytest.mark.browser\n# .ci/run\n",
    "static/a.css": "",
    "tests/architecture/test_names.py": "",
}


class Lines:
    def __init__(self, root: Path) -> None:
        self._by_path = {
            "shop/sums.py": SUMS_TESTS | {1: [""], 3: [""]},
            "shop/desk.py": {5: ["t::desk"]},
            "shop/store.py": {5: ["t::store"]},
        }
        self._root = root

    def contexts_by_lineno(self, filename: str) -> dict[int, list[str]]:
        return self._by_path.get(Path(filename).relative_to(self._root).as_posix(), {})


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root
        for path, text in FILES.items():
            self.put(path, text)
        self._git("init", "-q")
        self.commit()
        made_at = self._git("rev-parse", "HEAD").strip()
        asked = {"@::gift": ["t::gift", "t::other"], "@::all": ["tests/shop/test_b.py::one", "t::dear"]}
        templates = {"templates/till.html": ["t::till"]}
        self.map = Map(root, made_at, Lines(root), asked, templates, {"shop.sums.Till": ["t::form"]})

    def put(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def change(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        self.put(path, text.replace(old, new, 1))

    def commit(self) -> None:
        self._git("add", "-A")
        self._git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "a")

    def chosen(self, base: str = "HEAD") -> Choice:
        return chosen(Repository(self.root), Project(self.root), self.map, base, None)

    def _git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "tests"),
    [
        ("return cents * rates", "return cents / rates", {"t::dear"}),
        ("if cents > LIMIT", "if cents < LIMIT", {"t::cheap", "t::dear"}),
        # Whoever calls the function may come to a line that is new.
        ("    return cents\n", "    cents += 1\n    return cents\n", {"t::cheap", "t::dear"}),
        ("    return cents\n", "    return cents\n    print()\n", {"t::cheap", "t::dear"}),
        # What is set up for several tests counts for each of them.
        ("return 0", "return 1", {"t::gift", "t::other"}),
        ("LIMIT = 3", "LIMIT = 4", {"t::cheap", "t::dear"}),
        # Who mentions the class, uses what it declares or calls its methods.
        ('kind = "small"', 'kind = "large"', {"t::desk", "t::form", "t::till"}),
        ("    def open", "    def shut(self):\n        pass\n\n    def open", {"t::desk", "t::form", "t::till"}),
        ("# Nothing", "# Nothing", set()),
        ("def free", "def gone():\n    pass\n\n\ndef free", {"t::cheap", "t::dear", "t::gift", "t::other", "t::till"}),
    ],
)  # fmt: skip
def test_tests_that_reach_the_changed_lines_run(checkout, old, new, tests):
    if old == new:
        checkout.change("shop/sums.py", "LIMIT = 3", "# Said.\nLIMIT = 3")
    else:
        checkout.change("shop/sums.py", old, new)
    choice = checkout.chosen()
    assert (choice.tests, choice.files, choice.everything) == (tests, set(), "")


def test_lines_are_looked_up_where_they_were_when_the_map_was_made(checkout):
    checkout.change("shop/sums.py", "def price", "def more():\n    return 1\n\n\ndef price")
    checkout.commit()
    checkout.change("shop/sums.py", "return cents * rates", "return cents / rates")
    assert checkout.chosen().tests == {"t::dear"}
    # What was changed since the map and is changed back is a change.
    checkout.commit()
    checkout.change("shop/sums.py", "return cents / rates", "return cents * rates")
    assert checkout.chosen().tests == {"t::dear"}


def test_against_a_base_all_that_was_committed_since_counts(checkout):
    checkout.change("shop/sums.py", "return cents * rates", "return cents / rates")
    checkout.commit()
    assert checkout.chosen().tests == set()
    assert checkout.chosen("HEAD^").tests == {"t::dear"}


@pytest.mark.parametrize(
    ("path", "tests", "files"),
    [
        ("tests/shop/test_b.py", set(), {"tests/shop/test_b.py"}),
        ("tests/making.py", set(), {"tests/shop/test_a.py"}),
        ("tests/shop/conftest.py", set(), {"tests/shop/test_a.py", "tests/shop/test_b.py"}),
        ("tests/shop/golden/a.json", set(), {"tests/shop/test_a.py", "tests/shop/test_b.py"}),
        ("templates/till.html", {"t::till"}, set()),
        ("templates/other.html", set(), {"tests/web/test_c.py"}),
        ("static/a.css", set(), {"tests/web/test_c.py"}),
        ("README.md", set(), set()),
        # `make check` runs it.
        ("tests/architecture/test_names.py", set(), set()),
        (".ci/run", set(), {"tests/web/test_c.py"}),
        # Who reads it is reached by these.
        ("shop/stock.yaml", {"t::store"}, set()),
        ("shop/desk.py", {"t::desk"}, set()),
        # Settings of a linter change no test.
        ("pyproject.toml", set(), set()),
    ],
)
def test_other_files_have_their_tests(checkout, path, tests, files):
    checkout.put(path, ("a = 1\n" if path == "pyproject.toml" else "import os\n") + FILES[path])
    choice = checkout.chosen()
    assert (choice.tests, choice.files, choice.everything) == (tests, files, "")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\ntimeout = 9\n"),
        ("tests/conftest.py", "a = 1\n"),
        ("tests/waiting.py", "a = 1\n"),
        ("shop/migrations/0001_first.py", "a = 1\n"),
    ],
)
def test_what_all_tests_rest_on_runs_everything(checkout, path, text):
    checkout.put(path, text)
    assert path in checkout.chosen().everything


def test_a_constant_that_others_use_runs_their_tests(checkout):
    checkout.put("shop/rates.py", "RATE = 3\n")
    assert checkout.chosen().tests == {"t::cheap", "t::dear"}


def test_a_new_module_runs_the_tests_of_who_imports_it(checkout):
    checkout.put("shop/new.py", "def new():\n    return 1\n")
    checkout.put("tests/shop/test_new.py", "from shop import new\n")
    assert checkout.chosen().files == {"tests/shop/test_new.py"}
    checkout.change("shop/desk.py", "from shop import sums", "from shop import new, sums")
    checkout.change("shop/desk.py", "return sums.Till()", "return new.new()")
    assert checkout.chosen().tests == {"t::desk"}


def test_where_no_test_is_known_the_folder_runs(checkout):
    checkout.put("shop/unreached.py", "def idle():\n    return 1\n")
    checkout.commit()
    checkout.map.commit = checkout._git("rev-parse", "HEAD").strip()
    checkout.put("shop/unreached.py", "def idle():\n    return 2\n")
    choice = checkout.chosen()
    assert choice.files == {"tests/shop/test_a.py", "tests/shop/test_b.py"}
    assert "no test is known to reach it" in choice.notes[0]


def test_over_the_last_commits_the_median_is_told(checkout):
    for text in ("return cents / rates", "return cents + rates", "return cents - rates"):
        last = (checkout.root / "shop" / "sums.py").read_text().splitlines()[7].strip().partition(".")[0]
        checkout.change("shop/sums.py", last, text)
        checkout.commit()
    checkout.map.seconds = {"t::dear": 7.0}
    *rows, median = over(Repository(checkout.root), Project(checkout.root), checkout.map, 30)
    assert [row.split()[1:] for row in rows] == [["1", "tests", "7", "s"]] * 3
    assert median.split() == ["median", "1", "tests", "7", "s"]


def test_what_make_test_leaves_to_the_matrix_is_not_counted(checkout):
    checkout.change("shop/sums.py", "if cents > LIMIT", "if cents < LIMIT")
    checkout.commit()
    checkout.map.matrix = frozenset({"t::dear"})
    [row, _] = over(Repository(checkout.root), Project(checkout.root), checkout.map, 1)
    assert row.split()[1] == "1"


def test_a_diff_is_read_by_its_counts():
    diff = (
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -3 +3,2 @@ def\n--- a/y.py\n+@@ -1 +1 @@\n+b\n"
        "@@ -9,0 +11 @@\n+c\n\\ No newline at end of file\ndiff --git a/b c.md b/b c.md\nBinary files differ\n"
    )
    assert hunks(diff) == {"x.py": [Hunk(3, 1, 3, 2), Hunk(9, 0, 11, 1)], "b c.md": []}


@pytest.mark.parametrize(
    ("line", "there"),
    [(2, {2}), (3, {3, 4}), (4, {5}), (9, {10}), (10, {12}), (12, {14}), (13, {14, 15}), (20, {20})],
)
def test_lines_move_with_what_was_changed_before_them(line, there):
    between = [Hunk(3, 1, 3, 2), Hunk(9, 0, 11, 1), Hunk(13, 2, 14, 0)]
    assert moved([line], between) == there


def test_a_test_that_the_map_does_not_know_runs_in_a_file_that_was_asked_for():
    known = {"a.py::one[1]", "a.py::one[2]"}
    kept = [
        test
        for test in ("a.py::one[1]", "a.py::one[2]", "a.py::one[3]", "a.py::two", "b.py::any")
        if keeps(test, {"a.py::one[1]"}, {"b.py"}, known)
    ]
    assert kept == ["a.py::one[1]", "a.py::one[3]", "a.py::two", "b.py::any"]


def test_lines_of_the_working_tree_are_looked_up_where_a_commit_has_them(checkout):
    checkout.change("shop/sums.py", "LIMIT = 3", "LIMIT = 3\nLEAST = 1")
    between = Repository(checkout.root).hunks(None, "HEAD")["shop/sums.py"]
    assert moved([9], between) == {8}
    assert moved([3], between) == {3}
