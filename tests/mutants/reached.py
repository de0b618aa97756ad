"""The map that `python -m tests.mutants reach` makes: which tests reach which lines, templates and classes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import coverage

from tests.mutants.reach import ASKED, DECLARATIONS, MATRIX, SECONDS, TEMPLATES, tests_of

COMMIT, DATA = "commit", "reach"


class Lines(Protocol):
    def contexts_by_lineno(self, filename: str) -> dict[int, list[str]]: ...


@dataclass
class Map:
    """Paths are relative to the root, tests are known by their ids, and lines are those of the commit."""

    root: Path
    commit: str
    data: Lines
    asked: Mapping[str, list[str]]
    templates: Mapping[str, list[str]] = field(default_factory=dict)
    declarations: Mapping[str, list[str]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    # The tests that `make test` leaves to `make matrix`.
    matrix: frozenset[str] = frozenset()

    def by_line(self, path: str) -> dict[int, set[str]]:
        """The tests that reach each line, by themselves or by what is set up for them."""
        by_line = self.data.contexts_by_lineno(str(self.root / path))
        return {line: tests_of(contexts, self.asked) for line, contexts in by_line.items()}

    def reaching(self, path: str, lines: Iterable[int] | None) -> set[str]:
        """Of one of the lines, or of any with None."""
        by_line = self.by_line(path)
        return {test for line in (by_line if lines is None else lines) for test in by_line.get(line, ())}

    def using(self, path: str, name: str) -> set[str]:
        """The tests that made a request, a field or a form of a class."""
        return set(self.declarations.get(f"{path.removesuffix('.py').replace('/', '.')}.{name}", ()))

    @cached_property
    def known(self) -> set[str]:
        return {test for tests in self.asked.values() for test in tests}


def load(root: Path, folder: Path) -> Map | None:
    """None where there is no map, or one that does not say which commit it is of."""
    if not all((folder / name).exists() for name in (COMMIT, DATA, ASKED)):
        return None
    data = coverage.CoverageData(str(folder / DATA))
    data.read()
    return Map(
        root,
        (folder / COMMIT).read_text().strip(),
        data,
        _json(folder / ASKED),
        *(_json(folder / name) for name in (TEMPLATES, DECLARATIONS, SECONDS)),
        frozenset(_json(folder / MATRIX)),
    )


def _json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else {}
