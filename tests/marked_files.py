"""`-m` with a marker that few tests have imports the few files that may have them, and not all of the suite.

A file may have a test with a marker if `mark.<marker>` stands in it, in a `conftest.py` above it, or in a module of the
tests that one of these imports, at whatever distance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from itertools import product
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_FROM = re.compile(r"^\s*from ((?:tests|\.)[.\w]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORT = re.compile(r"^\s*import (tests[.\w]*)", re.MULTILINE)
_MARK = re.compile(r"\bmark\.(\w+)")


@pytest.hookimpl
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    expression = config.getoption("markexpr", "")
    if not expression or collection_path.suffix != ".py" or TESTS not in collection_path.parents:
        return None
    named = {Path(each.partition("::")[0]).resolve() for each in config.args}
    if collection_path in named or may_hold(expression, frozenset()):
        return None
    return True if not may_hold(expression, markers_of(collection_path)) else None


@cache
def may_hold(expression: str, markers: frozenset[str]) -> bool:
    """Whether some tests that have any of these markers, and no others, are chosen."""
    names = sorted(set(_NAME.findall(expression)) & markers)
    compiled = Expression.compile(expression)
    choices = product((False, True), repeat=len(names))
    chosen = ({name for name, has in zip(names, choice, strict=True) if has} for choice in choices)
    return any(compiled.evaluate(lambda name, **_: name in has) for has in chosen)  # noqa: B023


def markers_of(path: Path) -> frozenset[str]:
    """All that its tests may have."""
    reached: set[Path] = set()
    to_do = [path, *(above / "conftest.py" for above in path.parents if TESTS in (above, *above.parents))]
    while to_do:
        each = to_do.pop()
        if each not in reached and each.exists():
            reached.add(each)
            to_do += _imports(each)
    return frozenset().union(*map(_marks, reached))


@cache
def _marks(path: Path) -> frozenset[str]:
    return frozenset(_MARK.findall(path.read_text(encoding="utf-8")))


@cache
def _imports(path: Path) -> list[Path]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return [found for name in _imported(path.read_text(encoding="utf-8"), package) for found in _files(name)]


def _imported(source: str, package: str) -> Iterator[str]:
    yield from _IMPORT.findall(source)
    for stated, names in _FROM.findall(source):
        module = resolve_name(stated, package)
        yield module
        # Of a package, they may be its modules.
        yield from (f"{module}.{name}" for name in _NAME.findall(names))


def _files(module: str) -> Iterator[Path]:
    path = ROOT / module.replace(".", "/")
    yield path.with_suffix(".py")
    yield path / "__init__.py"
