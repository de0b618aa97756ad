"""The project's files, and which of them a module imports: read from the text, nothing is executed."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Project:
    """Paths are relative to the root, with slashes."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._imports: dict[str, frozenset[str]] = {}
        self._first: dict[str, frozenset[str]] = {}

    @cached_property
    def files(self) -> frozenset[str]:
        """What git knows or would take."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout
        return frozenset(name for name in listed.split("\0") if name and (self.root / name).is_file())

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def imports(self, path: str) -> frozenset[str]:
        """The project's modules that one names in its import statements, wherever they stand in it, and their packages."""
        if path not in self._imports:
            named = imported_names(ast.parse(self.text(path)), path)
            self._imports[path] = frozenset(each for name in named for each in self.modules_of(name))
        return self._imports[path]

    def first_imports(self, path: str) -> frozenset[str]:
        """Without those that a function has inside, which only its call imports."""
        if path not in self._first:
            named = imported_names(_without_functions(ast.parse(self.text(path))), path)
            self._first[path] = frozenset(each for name in named for each in self.modules_of(name))
        return self._first[path]

    def modules_of(self, name: str) -> Iterator[str]:
        """The file of a dotted name and those of the packages around it; the last part may be what a module holds."""
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            stem = "/".join(parts[:length])
            yield from (each for each in (f"{stem}.py", f"{stem}/__init__.py") if each in self.files)

    def executed(self, paths: Iterable[str]) -> set[str]:
        """What the values of modules may depend on of which a call executed lines, where the others' calls are known, too.

        That is what they import when they are imported, and so on. What their functions import counts as it is: had a call
        executed lines of it, these would be known.
        """
        found, inside, open_ = set(), set(), [path for path in paths if path in self.files]
        while open_:
            path = open_.pop()
            if path not in found and path.endswith(".py"):
                found.add(path)
                open_ += self.first_imports(path)
        for path in found:
            inside |= self.imports(path)
        return found | inside

    def closure(self, paths: Iterable[str]) -> set[str]:
        """The modules themselves and all that they import, and so on."""
        found: set[str] = set()
        open_ = [path for path in paths if path in self.files]
        while open_:
            path = open_.pop()
            if path not in found:
                found.add(path)
                open_ += self.imports(path) if path.endswith(".py") else ()
        return found

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Who imports a module."""
        found: dict[str, set[str]] = {}
        for path in self.files:
            if path.endswith(".py"):
                for each in self.imports(path):
                    found.setdefault(each, set()).add(path)
        return found


def _without_functions(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
    return tree


def imported_names(tree: ast.AST, path: str) -> Iterator[str]:
    """Dotted names; relative ones are completed by where the module stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = path.split("/")[: -node.level] if node.level else []
            base = ".".join([*around, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
