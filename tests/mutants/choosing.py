"""Which tests a change asks for, by the map of what each test reaches."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from tests.ci import groups
from tests.ci.imports import Project
from tests.mutants.lines import Hunk, Text, Touched, added, moved, same_meaning, touched
from tests.mutants.reached import Map

# All tests rest on these.
EVERYTHING = ("requirements.lock", "tests/conftest.py", "manage.py")
# It holds the settings of many tools; only those of pytest change how tests run. Dependencies are in the lock file.
PYPROJECT = "pyproject.toml"
PROSE = (".md", ".txt", ".png", ".svg")
SETTINGS = "portal/settings/"
# Where pages are tested.
WEB = "tests/web/"


@dataclass
class Choice:
    """Tests by their ids, test files as a whole, or everything for a reason."""

    tests: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    everything: str = ""
    notes: list[str] = field(default_factory=list)

    def all_for(self, reason: str) -> None:
        self.everything = self.everything or reason


@dataclass
class Change:
    """The files that differ between two versions, with the lines of the older; `between` leads to those of the map."""

    hunks: Mapping[str, list[Hunk]]
    between: Mapping[str, list[Hunk]]
    # Texts by path: of the map's commit, of the older version and of the newer one; None where there is no such file.
    at_map: Callable[[str], str | None]
    before: Callable[[str], str | None]
    after: Callable[[str], str | None]


class Chooser:
    def __init__(self, project: Project, known: Map, change: Change) -> None:
        self._project, self._map, self._change = project, known, change
        self._texts: dict[str, Text] = {}
        self.choice = Choice()

    def choose(self) -> Choice:
        for path in self._change.hunks:
            self._file(path)
        return self.choice

    def _file(self, path: str) -> None:
        top, suffix = path.partition("/")[0], PurePosixPath(path).suffix
        if path in EVERYTHING:
            self.choice.all_for(f"{path} changed")
        elif path == PYPROJECT and self._pytest_differs():
            self.choice.all_for(f"{path}: the settings of pytest changed")
        elif top == "tests":
            self._test_file(path)
        elif path.startswith(SETTINGS):
            self.choice.all_for(f"{path}: all tests run with these settings")
        elif suffix == ".py" and "/migrations/" in path:
            self.choice.all_for(f"{path}: all tests run on these tables")
        elif suffix == ".py":
            self._module(path)
        elif top == "templates":
            self._template(path)
        elif top == "static":
            self._whole(self._in_browsers, f"{path}: all tests in a browser")
        elif top == "docs" or suffix in PROSE or "/" not in path:
            self.choice.files |= self._naming(path)
        else:
            self._other(path)

    # --- tests

    def _test_file(self, path: str) -> None:
        name, folder = PurePosixPath(path).name, str(PurePosixPath(path).parent)
        if name.startswith("test_") and path.endswith(".py"):
            self.choice.files |= {path} & self._project.files
        elif path in self._helpers_of("tests/conftest.py"):
            self.choice.all_for(f"{path}: all tests use it")
        elif name == "conftest.py" or not path.endswith(".py"):
            found = {each for each in self._test_files if each.startswith(f"{folder}/")} or {
                each for each in self._test_files if each.startswith(f"{folder.rpartition('/')[0]}/")
            }
            self._whole(found, f"{path}: its folder")
        else:
            using = {each for each in self._test_files if path in self._helpers_of(each)}
            self._whole(using, f"{path}: the {len(using)} files of tests that use it")

    @cached_property
    def _test_files(self) -> list[str]:
        return groups.test_files(self._project)

    @cached_property
    def _helpers(self) -> dict[str, set[str]]:
        return {}

    def _helpers_of(self, path: str) -> set[str]:
        if path not in self._helpers:
            self._helpers[path] = groups.helpers(self._project, [path])
        return self._helpers[path]

    @cached_property
    def _in_browsers(self) -> set[str]:
        return {each for each in self._test_files if groups.BROWSER in self._project.text(each)}

    # --- what is no Python

    def _template(self, path: str) -> None:
        found = set(self._map.templates.get(path, ()))
        if found:
            self.choice.tests |= found
        else:
            self._whole(
                {each for each in self._test_files if each.startswith(WEB)},
                f"{path}: no test is known to render it; {WEB} runs",
            )

    def _other(self, path: str) -> None:
        """A file that programs read: whoever names it, and who reaches the modules that do."""
        name, files = _said(path), self._naming(path)
        modules = [
            each for each in self._project.files if _product(each) and name in self._project.text(each)
        ]
        tests = {test for each in modules for test in self._map.reaching(each, None)}
        if files or tests:
            self.choice.files |= files
            self.choice.tests |= tests
        else:
            self.choice.all_for(f"{path}: nothing says who reads it")

    def _pytest_differs(self) -> bool:
        before, after = (
            tomllib.loads(text(PYPROJECT) or "").get("tool", {}).get("pytest")
            for text in (self._change.before, self._change.after)
        )
        return before != after

    def _naming(self, path: str) -> set[str]:
        name = _said(path)
        return {each for each in self._test_files if name in self._project.text(each)}

    def _whole(self, files: Iterable[str], note: str) -> None:
        self.choice.files |= set(files)
        self.choice.notes.append(note)

    # --- modules of the portal

    def _module(self, path: str) -> None:
        before, after = self._change.before(path), self._change.after(path)
        if before is None:
            self._new_module(path)
            return
        old, new = Text(before), Text(after) if after is not None else None
        if new is not None and same_meaning(old, new):
            return
        at_map = self._change.at_map(path)
        if at_map is None:  # It is younger than the map.
            self._new_module(path)
            return
        found, text = set(), self._parsed(path, at_map)
        for hunk in self._change.hunks[path]:
            found |= self._hunk(path, hunk, old, new, text)
        # An import that alone was changed is used by nothing else that was.
        self._take(path, found or self._map.reaching(path, None))

    def _hunk(self, path: str, hunk: Hunk, old: Text, new: Text | None, text: Text) -> set[str]:
        grows = hunk.new_count > hunk.old_count
        there = touched(old, hunk.old_lines, grows=grows)
        more = added(old, new, hunk.new_lines) if new is not None and grows else Touched()
        between = self._change.between.get(path, [])
        by_line = self._map.by_line(path)
        found = {test for line in moved(there.lines | more.lines, between) for test in by_line.get(line, ())}
        if there.lines and not found:
            found = {test for line in moved(there.instead, between) for test in by_line.get(line, ())}
        for name in there.names | more.names:
            found |= self._mentioning(path, name, text)
        if there.module or more.module:
            found |= self._map.reaching(path, None)
        return found

    def _mentioning(self, path: str, name: str, text: Text) -> set[str]:
        """Tests that reach who mentions a name of a module: in the module itself, or in one that imports it."""
        found = self._map.using(path, name) | self._map.reaching(path, text.mentions(name))
        for each in self._project.importers.get(path, ()):
            if each.startswith("tests/"):
                if name in self._project.text(each):
                    self._test_file(each)
            elif (there := self._change.at_map(each)) is not None and name in there:
                found |= self._map.reaching(each, self._parsed(each, there).mentions(name))
        return found

    def _parsed(self, path: str, text: str) -> Text:
        """Of the map's commit."""
        if path not in self._texts:
            self._texts[path] = Text(text)
        return self._texts[path]

    def _new_module(self, path: str) -> None:
        """Nothing has reached it yet: the tests that import it, and those that reach who imports it."""
        found: set[str] = set()
        for each in self._project.importers.get(path, ()):
            if each.startswith("tests/"):
                self._test_file(each)
            elif each not in self._change.hunks:  # What was changed there is looked at line by line.
                found |= self._map.reaching(each, None)
        self.choice.tests |= found

    def _take(self, path: str, found: set[str]) -> None:
        if found:
            self.choice.tests |= found
            return
        folder = f"tests/{path.partition('/')[0]}/"
        files = {each for each in self._test_files if each.startswith(folder)}
        if files:
            self._whole(files, f"{path}: no test is known to reach it; {folder} runs")
        else:
            self.choice.all_for(f"{path}: no test is known to reach it")


def _said(path: str) -> str:
    """How others name it: a word alone may mean anything."""
    name = PurePosixPath(path).name
    return name if "." in name else path


def _product(path: str) -> bool:
    return path.endswith(".py") and not path.startswith(("tests/", "docs/", "benchmarks/"))
