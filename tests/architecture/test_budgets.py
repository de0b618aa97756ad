"""How large a file or function may grow, and what code may not do."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import PROJECT, ROOT, functions, modules, nodes

FILE_LINES_MAX = 500
FOLDER_MODULES_MAX = 25
PACKAGE_LINES_MAX = 8000
# It is on its way there, and may not grow meanwhile.
LARGER = {"devcluster": 9600}
FUNCTION_LINES_MAX = 60
POSITIONAL_MAX = 6
COMPLEXITY_MAX = 10
MOVES_THE_PHASE = ("workloads/services.py", "workloads/bulk/transitions.py")


def test_no_file_is_longer_than_its_budget():
    sizes = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in modules()}
    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES_MAX} == {}


def test_no_flat_folder_has_more_modules_than_its_budget():
    counts = Counter(Path(name).parent.as_posix() for name in modules() if not name.endswith("__init__.py"))
    assert {folder: count for folder, count in counts.items() if count > FOLDER_MODULES_MAX} == {}


def test_no_package_is_larger_than_its_budget():
    sizes: Counter[str] = Counter()
    for name in modules():
        sizes[name.partition("/")[0]] += len((ROOT / name).read_text(encoding="utf-8").splitlines())
    most = {package: LARGER.get(package, PACKAGE_LINES_MAX) for package in sizes}
    assert {package: lines for package, lines in sizes.items() if lines > most[package]} == {}


def test_every_folder_says_which_question_it_answers():
    silent = [
        name
        for name, tree in modules().items()
        if name.endswith("__init__.py") and not ast.get_docstring(tree)
    ]
    assert silent == []


def test_no_function_is_longer_than_its_budget():
    long = {where: node.end_lineno - node.lineno + 1 for where, node in functions()}
    assert {where: lines for where, lines in long.items() if lines > FUNCTION_LINES_MAX} == {}


def test_no_function_takes_more_positional_parameters_than_its_budget():
    counts = {
        where: len(
            [each for each in (*node.args.posonlyargs, *node.args.args) if each.arg not in {"self", "cls"}]
        )
        for where, node in functions()
    }
    assert {where: count for where, count in counts.items() if count > POSITIONAL_MAX} == {}


def test_ruff_keeps_the_budget_of_complexity():
    lint = PROJECT["tool"]["ruff"]["lint"]
    assert lint["mccabe"]["max-complexity"] == COMPLEXITY_MAX
    assert not {"C901", "C90", "C"} & set(lint["ignore"])


def test_every_function_is_annotated():
    assert [where for where, node in functions() if list(_without_annotation(node))] == []


def _without_annotation(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    arguments = node.args
    named = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    yield from (
        each.arg for each in named if each and not each.annotation and each.arg not in {"self", "cls"}
    )
    if node.returns is None:
        yield "return"


def test_only_transition_moves_a_phase():
    assigned = [
        where
        for where, node in nodes(ast.Assign)
        if isinstance(node, ast.Assign) and not where.startswith((*MOVES_THE_PHASE, "devcluster/"))
        for target in node.targets
        for part in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(part, ast.Attribute) and part.attr == "phase"
    ]
    updated = [
        where
        for where, node in nodes(ast.Call)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update"
        if not where.startswith(MOVES_THE_PHASE) and any(each.arg == "phase" for each in node.keywords)
    ]
    assert assigned + updated == []


def test_no_error_is_swallowed():
    assert [where for where, node in nodes(ast.ExceptHandler) if _swallows(node)] == []


def _swallows(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    broad = node.type is None or (
        isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
    )
    return broad and all(isinstance(step, ast.Pass | ast.Continue) for step in node.body)
