"""The portal's own source files, parsed once for all the tests of this folder."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINTER = PROJECT["tool"]["importlinter"]
PACKAGES: tuple[str, ...] = tuple(LINTER["root_packages"])
APART = "devcluster"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Syntax trees by path (relative, with slashes) of all packages, migrations left out."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                found[path.relative_to(ROOT).as_posix()] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def _by_kind() -> dict[type[ast.AST], list[tuple[str, ast.AST]]]:
    """Every node with the module it stands in: all trees are walked once, and not once for each check."""
    found: dict[type[ast.AST], list[tuple[str, ast.AST]]] = defaultdict(list)
    for name, tree in modules().items():
        for node in ast.walk(tree):
            found[type(node)].append((name, node))
    return found


def functions() -> Iterator[tuple[str, Function]]:
    """Every function and method with where it stands."""
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        for name, node in _by_kind()[kind]:
            assert isinstance(node, kind)
            yield f"{name}:{node.lineno} {node.name}", node


def nodes(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Every node of a kind with where it stands."""
    for name, node in _by_kind()[kind]:
        yield f"{name}:{getattr(node, 'lineno', 0)}", node


def layer_order() -> dict[str, int]:
    """The rank of each package by the contract `layers`; a higher one may import a lower one."""
    (contract,) = (each for each in LINTER["contracts"] if each["id"] == "layers")
    lines = reversed(contract["layers"])
    return {name.strip(): rank for rank, line in enumerate(lines) for name in line.split("|")}


@cache
def tracked_texts() -> tuple[tuple[str, str], ...]:
    """Path and text of every text file that git knows or would take."""
    return tuple(_read_tracked())


def _read_tracked() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if not name or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" not in data:
            yield name, data.decode("utf-8", errors="replace")


def markdown() -> dict[str, str]:
    """The documentation: path and text of every page."""
    return {name: text for name, text in tracked_texts() if name.endswith(".md")}
