"""The groups of the tests on the real control plane, and the sweeps over all pages: which tests are theirs.

A word in a file's name, or else its folder, gives the group of its tests marked `cluster`. All other such tests are in
`e2e`, which always runs. No list has to be kept: a new file gets its group from its name and folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.ci.imports import Project

E2E = "e2e"
SWEEPS = "sweeps"
# What the operator of training jobs does; what scales, serves and is measured; who gets which node; the API itself.
WORDS: dict[str, str] = {
    "kubeflow": r"pytorchjob|_kinds_|pod_sets|sweeps",
    "keda": r"scal|endpoint|rollouts?_|rollouts\.py|promql",
    "scheduler": r"schedul|preempt|spot|capacity",
}
FOLDERS: dict[str, str] = {
    "tests/cluster": "contract",
    "tests/contract": "contract",
    "tests/controller": "scheduler",
    "tests/devcluster": "contract",
    "tests/diagnosis": "scheduler",
    "tests/inference": "keda",
    "tests/jobs": "kubeflow",
    "tests/telemetry": "keda",
}
GROUPS = ("contract", "kubeflow", "keda", "scheduler", E2E)

# With what they are marked; `--strict-markers` knows no other way to spell them.
CLUSTER, BROWSER, SWEEP = "mark.cluster", "mark.browser", "mark.sweep"


def groups_by_words(path: str) -> list[str]:
    """One at most: a test says so of the files there are."""
    name = PurePosixPath(path).name
    return [group for group, words in WORDS.items() if re.search(words, name)]


def group_of(path: str) -> str:
    """The group of a test file, as if its tests were marked."""
    folder = next((each for each in FOLDERS if path.startswith(f"{each}/")), None)
    if folder is None:
        return E2E
    return next(iter(groups_by_words(path)), FOLDERS[folder])


def helpers(project: Project, tests: Iterable[str]) -> set[str]:
    """The test files with all below tests/ that they import, and the conftest files around them with theirs."""
    found: set[str] = set()
    open_ = list(tests)
    while open_:
        path = open_.pop()
        if path in found or path not in project.files or not path.startswith("tests/"):
            continue
        found.add(path)
        folders = PurePosixPath(path).parents
        open_ += [f"{folder}/conftest.py" for folder in folders] + [
            f"{folder}/__init__.py" for folder in folders
        ]
        open_ += project.imports(path) if path.endswith(".py") else ()
    return found


def test_files(project: Project) -> list[str]:
    return sorted(
        path for path in project.files if path.startswith("tests/") and PurePosixPath(path).match("test_*.py")
    )


def cluster_files(project: Project) -> dict[str, list[str]]:
    """Files by group that may hold tests marked `cluster`: the mark stands in them, or in what they have from tests/."""
    marked = {
        path: CLUSTER in project.text(path)
        for path in project.files
        if path.startswith("tests/") and path.endswith(".py") and not path.startswith("tests/ci/")
    }
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for path in test_files(project):
        if any(marked.get(each) for each in helpers(project, [path])):
            found[group_of(path)].append(path)
    return found


def sweep_files(project: Project) -> list[str]:
    """Test files with tests that are marked `sweep`."""
    return [
        path
        for path in test_files(project)
        if SWEEP in project.text(path) and not path.startswith("tests/ci/")
    ]


def shown(path: str) -> bool:
    """Whether a file of the project is what pages, those of the admin site among them, are made of: by its name."""
    parts = PurePosixPath(path).parts
    pages = (
        parts[-1].startswith("admin")
        or parts[-1].endswith(("pages.py", "views.py", "forms.py"))
        or {"pages", "templatetags", "forms"} & set(parts[:-1])
        or path.startswith(("portal/flavors/", "portal/settings/"))
    )
    return parts[0] in {"templates", "static"} or (
        parts[0] not in {"tests", "docs"} and path.endswith(".py") and bool(pages)
    )
