"""Where a fault can be planted in a module, and what the line would say with it."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

Function = ast.FunctionDef | ast.AsyncFunctionDef

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip
# What is only said to operators, or is a place for tests to end a process: without it nothing is wrong.
SAID_ONLY = ("_log.", "log.", "logger.", "crash_point(", "super().__init__(")
UNPLANTED = ("__str__", "__repr__")


@dataclass(frozen=True)
class Site:
    """One fault that can be planted. What it is found again by has no line and no file."""

    symbol: str
    kind: str
    before: str
    after: str
    # Which of those in the symbol whose other fields are equal, from 0.
    occurrence: int
    # Where it stands: (line, column in bytes) from and to, and the lines that run when it is reached.
    span: tuple[tuple[int, int], tuple[int, int]]
    lines: range
    # Whether the body of a class says it: it runs once, when the module is imported.
    declared: bool = False

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.symbol, self.kind, self.before, self.after, self.occurrence


def sites(source: str) -> list[Site]:
    """All faults that can be planted in this module, from its head to its end."""
    seen: Counter[tuple[str, str, str, str]] = Counter()
    found = []
    lines = source.encode().splitlines(keepends=True)
    for symbol, scope in _scopes(ast.parse(source), ""):
        for statement in chain.from_iterable(map(_statements, scope.body)):
            for node, kind, after in _faults(statement):
                span = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
                name = (symbol, kind, _segment(lines, *span), after)
                declared = isinstance(scope, ast.ClassDef)
                found.append(Site(*name, seen[name], span, _lines(statement), declared=declared))
                seen[name] += 1
    return found


def _segment(lines: list[bytes], start: tuple[int, int], end: tuple[int, int]) -> str:
    """As `ast.get_source_segment`, which splits the source anew for each."""
    found = lines[start[0] - 1 : end[0]]
    found[-1] = found[-1][: end[1]]
    found[0] = found[0][start[1] :]
    return b"".join(found).decode()


def planted(source: str, site: Site) -> str:
    """The module with that fault."""
    lines = source.encode().splitlines(keepends=True)
    (first, start), (last, end) = site.span
    head, tail = lines[first - 1][:start], lines[last - 1][end:]
    lines[first - 1 : last] = [head + site.after.encode() + tail]
    return b"".join(lines).decode()


def _scopes(body: ast.AST, prefix: str) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Each function and class by its name; the statements of a class itself are what it declares."""
    for node in ast.iter_child_nodes(body):
        if isinstance(node, ast.ClassDef | Function):
            name = f"{prefix}{node.name}"
            if node.name not in UNPLANTED:
                yield name, node
            yield from _scopes(node, f"{name}.")


def _statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """It and those inside it, but not of a function or class of its own."""
    if isinstance(statement, ast.ClassDef | Function) or _is_text(statement):
        return
    yield statement
    for child in ast.iter_child_nodes(statement):
        inner = [child] if isinstance(child, ast.stmt) else getattr(child, "body", [])
        for each in inner if isinstance(inner, list) else []:
            if isinstance(each, ast.stmt):
                yield from _statements(each)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _lines(statement: ast.stmt) -> range:
    """Those of its own: the head alone of what has a body."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(last, statement.lineno) + 1)


def _faults(statement: ast.stmt) -> Iterator[tuple[ast.stmt | ast.expr, str, str]]:
    called = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    if called and not ast.unparse(statement).startswith(SAID_ONLY):
        yield statement, "removed call", "pass"
    if isinstance(statement, ast.If):
        ends = isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue)
        if ends and not statement.orelse:
            yield statement.test, "removed guard", "False"
        else:
            yield statement.test, "condition", f"(not ({ast.unparse(statement.test)}))"
    for node in _expressions(statement):
        for kind, changed in _changed(node):
            yield node, kind, f"({ast.unparse(changed)})"


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of the statement itself; the parts of a text have no true places before Python 3.12."""
    waiting = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.JoinedStr | ast.stmt):
            continue
        if isinstance(node, ast.expr):
            yield node
        waiting = [*ast.iter_child_nodes(node), *waiting]


def _changed(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    other = copy.copy(node)
    match other:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            other.ops = [COMPARISONS[type(op)]()]
            yield "comparison", other
        case ast.BoolOp(op=op):
            other.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "operator", other
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            other.op = OPERATORS[type(op)]()
            yield "operator", other
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "operator", operand
        case ast.Constant(value=bool(value)):
            other.value = not value
            yield "constant", other
        case ast.Constant(value=int(value)):
            other.value = value + 1
            yield "constant", other
