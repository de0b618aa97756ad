"""Names that only strings hold: tasks, phases, reasons, variables, commands."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest
from django.conf import settings
from django.core.management import get_commands, load_command_class

from controller.wakeups import RECONCILE_TASK
from docs.generate import reference
from portal.celery import app
from tests.architecture.sources import APART, ROOT, functions, markdown, modules, nodes
from workloads.states import REASONS, TRANSITIONS, Phase, Reason

REFERENCE = ROOT / "docs" / "reference"
# These hold sentences about the states, and use none of them.
WORDS = (
    "workloads/states.py",
    "console/reason_texts.py",
    "console/pages/words.py",
    "docs/generate/words.py",
)


@pytest.fixture(scope="module")
def registered() -> set[str]:
    app.loader.import_default_modules()
    return set(app.tasks)


def test_the_wake_up_names_a_registered_task(registered):
    assert RECONCILE_TASK in registered


def test_every_periodic_job_names_a_registered_task(registered):
    assert {job["task"] for job in settings.CELERY_BEAT_SCHEDULE.values()} <= registered


def test_every_task_with_a_queue_of_its_own_is_a_registered_task(registered):
    assert set(settings.CELERY_TASK_ROUTES) <= registered


def test_every_declared_task_is_registered(registered):
    declared = {
        where.partition(".py:")[0].replace("/", ".") + "." + node.name
        for where, node in functions()
        if any(_is_task(each) for each in node.decorator_list)
    }
    registered_functions = {f"{task.__module__}.{task.__name__}" for task in app.tasks.values()}
    assert declared
    assert declared <= registered_functions


def _is_task(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "task"
    )


@pytest.mark.parametrize(("enum", "members"), [("Phase", list(Phase)), ("Reason", list(Reason))])
def test_every_phase_and_reason_is_used(enum, members):
    used = {
        node.attr
        for where, node in nodes(ast.Attribute)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == enum
        if not where.startswith(WORDS)
    }
    assert [member.name for member in members if member.name not in used] == []


def test_every_phase_can_be_reached_and_every_reason_belongs_to_a_phase():
    reached, open_ends = {Phase.QUEUED}, [Phase.QUEUED]
    while open_ends:
        new = TRANSITIONS[open_ends.pop()] - reached
        reached |= new
        open_ends += new
    assert reached == set(Phase)
    assert frozenset().union(*REASONS.values()) == set(Reason)
    assert set(REASONS) == set(Phase)


def test_every_phase_and_reason_is_documented():
    text = (REFERENCE / "workload-phases.md").read_text(encoding="utf-8")
    assert [name for name in (*Phase, *Reason) if f"| `{name}` |" not in text] == []


@pytest.mark.matrix
def test_the_generated_pages_say_what_the_code_says():
    assert reference.differences(REFERENCE) == [], "run `make docs`"


def test_every_operation_of_rest_is_told_in_a_sentence_of_its_own():
    rows = re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \| (.*) \| [0-9, ]+ \|$", _rest_page(), re.MULTILINE)
    assert len(rows) > 100
    # Runs and endpoints share views, and thereby what these say.
    told = Counter((path.partition("/")[0], says) for _, path, says in rows)
    unsaid = {(method, path) for method, path, says in rows if not says.endswith(".")}
    shared = {each for each, times in told.items() if times > 1}
    assert (unsaid, shared) == (set(), set())


def test_no_summary_speaks_of_the_view_that_is_shared():
    words = ("which workloads a view is about", "get lists", "subclass it")
    assert [word for word in words if word in _rest_page().lower()] == []


def _rest_page() -> str:
    return (REFERENCE / "rest-api.md").read_text(encoding="utf-8")


def test_every_variable_of_the_portal_is_documented():
    text = "\n".join(markdown().values())
    names = {
        name
        for where, node in nodes(ast.Constant)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not where.startswith(APART)
        for name in re.findall(r"PORTAL_[A-Z][A-Z_]*[A-Z]", node.value)
    }
    assert len(names) > 10
    assert sorted(name for name in names if name not in text) == []


def test_every_command_of_the_portal_has_a_help():
    own = [name for name, where in get_commands().items() if where == "portal"]
    assert len(own) > 5
    assert [name for name in own if not load_command_class("portal", name).help] == []


def test_every_target_of_the_makefile_is_in_the_readme():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE)
    assert "demo" in targets
    assert [target for target in targets if f"make {target}" not in readme] == []


def test_a_class_name_has_one_meaning():
    public: Counter[str] = Counter()
    for name, tree in modules().items():
        if not name.startswith((APART, "demo/digits/")):
            public.update(
                each.name for each in tree.body if isinstance(each, ast.ClassDef) and each.name[0] != "_"
            )
    assert sorted(name for name, times in public.items() if times > 1 and name != "Command") == []
