"""Every test on the real control plane has one group."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.ci import groups
from tests.ci.imports import ROOT, Project


@pytest.fixture(scope="module")
def by_group() -> dict[str, list[str]]:
    return groups.cluster_files(Project())


def test_no_file_is_claimed_by_the_words_of_two_groups(by_group):
    files = [path for paths in by_group.values() for path in paths]
    claimed = {path: groups.groups_by_words(path) for path in files if groups.group_of(path) != groups.E2E}
    both = {path for path, found in claimed.items() if len(found) > 1}
    # Neither has tests marked `cluster`.
    assert both <= {"tests/controller/test_endpoint_on_spot.py"}


def test_every_file_is_in_one_group_and_every_group_has_some(by_group):
    files = [path for paths in by_group.values() for path in paths]
    assert len(files) == len(set(files))
    assert all(by_group.values())


def test_groups_by_name_and_by_folder():
    assert groups.group_of("tests/contract/test_pods.py") == "contract"
    assert groups.group_of("tests/contract/test_pytorchjob_pods.py") == "kubeflow"
    assert groups.group_of("tests/contract/test_scaledobject.py") == "keda"
    assert groups.group_of("tests/contract/test_deployment_rollout.py") == "contract"
    assert groups.group_of("tests/contract/test_scheduling.py") == "scheduler"
    assert groups.group_of("tests/controller/test_fences.py") == "scheduler"
    assert groups.group_of("tests/controller/test_rollouts.py") == "keda"
    assert groups.group_of("tests/e2e/test_real_control_plane.py") == "e2e"
    # What nothing else takes.
    assert groups.group_of("tests/crash/test_crowd.py") == "e2e"
    assert groups.group_of("tests/anything/test_endpoint_new.py") == "e2e"


def test_a_mark_is_seen_in_a_file_its_conftest_and_what_it_imports(by_group):
    files = {path for paths in by_group.values() for path in paths}
    own, by_conftest, by_helper = (
        "tests/cluster/test_rights.py",
        "tests/controller/test_fences.py",
        "tests/jobs/test_golden_manifests.py",
    )
    assert {own, by_conftest, by_helper} <= files
    assert "tests/teams/test_tokens.py" not in files


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("templates/console/list.html", True),
        ("static/portal/portal.js", True),
        ("console/pages/submit.py", True),
        ("teams/member_views.py", True),
        ("quotas/admin.py", True),
        ("portal/admin_site.py", True),
        ("portal/flavors/rows.py", True),
        ("portal/settings/__init__.py", True),
        ("policy/judge.py", False),
        ("controller/admission/plain.py", False),
        ("tests/web/test_forms.py", False),
        ("docs/reference/pages.md", False),
    ],
)
def test_pages_are_known_by_the_names_of_what_makes_them(path, shown):
    assert groups.shown(path) is shown


@pytest.mark.matrix
def test_the_tests_that_take_minutes_come_first():
    """As pytest puts them in order with all its plugins."""
    files = ["tests/controller/test_scheduler_agrees.py", "tests/contract/test_scheduling.py", "tests/e2e"]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "tests.ci.longest_first"]
    done = subprocess.run(
        [*command, "-m", "cluster", *files], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tests = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    late = [groups.group_of(test) != groups.E2E for test in tests]
    assert late == sorted(late)
    assert set(late) == {False, True}
