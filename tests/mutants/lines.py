"""Which lines a change touches, and which lines of the module they stand for: from diffs and syntax trees alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


@dataclass(frozen=True)
class Hunk:
    """Lines that a diff without context replaces; with a count of 0 the number is that of the line before."""

    old: int
    old_count: int
    new: int
    new_count: int

    @property
    def old_lines(self) -> range:
        return range(self.old, self.old + self.old_count)

    @property
    def new_lines(self) -> range:
        return range(self.new, self.new + self.new_count)


def _lines(first: int, count: int) -> range:
    """They themselves, or the lines around a place that has none."""
    return range(first, first + count) if count else range(first, first + 2)


def hunks(diff: str) -> dict[str, list[Hunk]]:
    """By path, of `git diff -U0 --no-renames`; a binary file has none."""
    found: dict[str, list[Hunk]] = {}
    path, rest = "", 0
    for line in diff.splitlines():
        header = HEADER.match(line)
        if rest:
            rest -= not line.startswith("\\")
        elif line.startswith("diff --git "):
            # Without renames both names are the same.
            path = line.removeprefix("diff --git a/")
            path = path[: (len(path) - len(" b/")) // 2]
            found[path] = []
        elif header:
            old, old_count, new, new_count = (1 if each is None else int(each) for each in header.groups())
            found[path].append(Hunk(old, old_count, new, new_count))
            rest = old_count + new_count
    return found


def moved(lines: Iterable[int], between: Iterable[Hunk]) -> set[int]:
    """Where lines stand in another version; what was replaced in between stands for all that it was replaced by."""
    between = list(between)
    found: set[int] = set()
    for line in lines:
        shift = 0
        for hunk in between:
            end = hunk.old + hunk.old_count if hunk.old_count else hunk.old + 1
            if line >= end:
                shift += hunk.new_count - hunk.old_count
            elif hunk.old_count and line >= hunk.old:
                found |= set(_lines(hunk.new, hunk.new_count))
                break
            else:
                found.add(line + shift)
                break
        else:
            found.add(line + shift)
    return {line for line in found if line > 0}


@dataclass
class Touched:
    """What a change of a module stands for in its text of then."""

    # Lines whose tests run, and those that stand for them where they have none.
    lines: set[int] = field(default_factory=set)
    instead: set[int] = field(default_factory=set)
    # Names that mean something else now, to whoever mentions them.
    names: set[str] = field(default_factory=set)
    # Nothing but import statements was changed, or what has no name: whoever reaches the module.
    module: bool = False


class Text:
    """The syntax of a module."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self.tree = ast.parse(text)
        # Functions and classes by their qualified names.
        self.by_name: dict[str, Definition] = dict(_definitions(self.tree))

    def says(self, line: int) -> bool:
        """Whether there is more than a comment."""
        return not self._lines[line - 1].strip().startswith("#") and bool(self._lines[line - 1].strip())

    def around(self, line: int) -> list[str]:
        """The qualified names of functions and classes that contain a line, the outermost first."""
        return [name for name, node in self.by_name.items() if line in span(node)]

    def function_at(self, line: int) -> Function | None:
        """The innermost."""
        found = (self.by_name[name] for name in reversed(self.around(line)))
        return next((node for node in found if isinstance(node, Function)), None)

    def statement_at(self, line: int) -> ast.stmt | None:
        """The innermost."""
        there = (node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and line in span(node))
        return min(there, key=lambda each: len(span(each)), default=None)

    def mentions(self, name: str) -> set[int] | None:
        """Lines of the functions that mention it, and of classes that do; None where the module itself does."""
        found: set[int] = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Name(id=said, ctx=ast.Load()) | ast.Attribute(attr=said) if said == name:
                    around = self.function_at(node.lineno) or self._class_at(node.lineno)
                    if around is None:
                        return None
                    found |= set(span(around))
        return found

    def _class_at(self, line: int) -> Definition | None:
        return next((self.by_name[name] for name in self.around(line)), None)


def _definitions(node: ast.AST, within: str = "") -> Iterator[tuple[str, Definition]]:
    for child in ast.iter_child_nodes(node):
        inner = within
        if isinstance(child, Definition):
            inner = f"{within}{child.name}."
            yield inner.removesuffix("."), child
        yield from _definitions(child, inner)


def span(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)


def touched(before: Text, lines: Iterable[int], *, grows: bool) -> Touched:
    """What a change of these lines stands for.

    Inside a function it is the statement, and the whole function where lines are added: other ways may lead to these.
    """
    found = Touched()
    for line in filter(before.says, lines):
        function = before.function_at(line)
        if function is None:
            _outside(before, line, found)
        else:
            whole = set(span(function))
            found.lines |= whole if grows else _statement(before, function, line) or whole
            found.instead |= whole
    return found


def _statement(before: Text, function: Function, line: int) -> set[int]:
    """Its lines, without those of its block; none where the line is the function's own."""
    innermost = before.statement_at(line)
    if innermost is None or innermost is function:
        return set()
    body = getattr(innermost, "body", None)
    lines = set(range(innermost.lineno, body[0].lineno)) if body else set(span(innermost))
    return lines if line in lines else set()


def _outside(text: Text, line: int, found: Touched) -> None:
    """At the level of the module or of a class."""
    around, statement = text.around(line), text.statement_at(line)
    if around:
        found.names.add(around[0])
        found.lines |= set(span(text.by_name[around[0]]))
    elif statement is None or isinstance(statement, ast.Import | ast.ImportFrom):
        return  # Names that other changed lines use.
    elif names := set(defined(statement)):
        found.names |= names
    else:
        found.module = True


def added(before: Text, after: Text, lines: Iterable[int]) -> Touched:
    """What lines of the new text stand for in the old one.

    A new function or class is nobody's but whose that other changed lines have call it; a new method may stand before another.
    """
    found = Touched()
    for line in filter(after.says, lines):
        around = after.around(line)
        known = next((name for name in reversed(around) if name in before.by_name), None)
        if known is not None:
            node = before.by_name[known]
            found.lines |= set(span(node))
            found.names |= set() if isinstance(node, Function) else {known.partition(".")[0]}
        elif not around:
            _outside(after, line, found)
    return found


def defined(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module gives a meaning."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id


def same_meaning(before: Text, after: Text) -> bool:
    """Only comments or line breaks differ."""
    return ast.dump(before.tree) == ast.dump(after.tree)
