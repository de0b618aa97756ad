"""Finders of code that makes a test fail now and then: on a busy machine, around midnight, by a draw that cannot be repeated, or
on a port that another program has taken.

Each finder takes a module and yields pairs: the name of the function and what it does. It reads only the syntax, so it misses
what is imported from another module under another name.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.waiting import SECONDS

Kind = TypeVar("Kind", bound=ast.AST)
Found = Iterator[tuple[str, str]]
Finder = Callable[["Module"], Found]

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"}
# Where the number of seconds stands, if it is not told by name.
WAITS = {
    "until": 1,
    "until_equal": 2,
    "wait": 0,
    "join": 0,
    "acquire": 1,
    "communicate": 1,
    "wait_for": 1,
    "settimeout": 0,
}
OPENS = {"get", "notifies", "urlopen", "HTTPConnection", "HTTPSConnection", "create_connection"}
LIMITS = {"seconds", "timeout"}
# What is shorter is a pause between two looks, if it is not asserted.
PAUSE_SECONDS = 1.0
BROWSER_MILLISECONDS = 30_000
# Functions of modules; a generator's methods have a seed. Names that are drawn (`secrets.token_hex`) decide nothing.
DRAWERS = (
    *(
        f"random.{name}"
        for name in ("betavariate", "choice", "expovariate", "gauss", "getrandbits", "paretovariate")
    ),
    *(f"random.{name}" for name in ("rand", "sample", "shuffle", "triangular", "uniform")),
    *(f"secrets.{name}" for name in ("choice", "randbelow", "randbits")),
    *(f"numpy.random.{name}" for name in ("choice", "normal", "permutation", "rand", "shuffle", "uniform")),
)
GENERATORS = {"Random", "RandomState", "default_rng"}
PARTS = {
    "date",
    "day",
    "month",
    "year",
    "hour",
    "minute",
    "weekday",
    "isoweekday",
    "isocalendar",
    "time",
    "strftime",
}
CALENDAR = {"year", "month", "day", "hour", "minute"}
TODAYS = {"today", "localdate", "localtime", "utcnow"}
PORTS = {"free_port", "free_ports", "unused_port", "find_free_port"}


@dataclass
class Scope:
    """A function, a class or the module: the nodes that it has itself, by their kind, and what it asserts."""

    name: str
    nodes: dict[type[ast.AST], list[Any]] = field(default_factory=lambda: defaultdict(list))

    def of(self, kind: type[Kind]) -> list[Kind]:
        return self.nodes[kind]

    @property
    def calls(self) -> list[ast.Call]:
        return self.nodes[ast.Call]

    @property
    def claims(self) -> list[ast.expr]:
        return [each.test for each in self.of(ast.Assert)]

    def given(self) -> Iterator[tuple[str, ast.expr]]:
        """Names, and what each is made of."""
        for node in self.of(ast.Assign):
            if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                yield node.targets[0].id, node.value
        for named in self.of(ast.NamedExpr):
            yield named.target.id, named.value


@dataclass
class Module:
    """One file, gone through once for all finders."""

    scopes: list[Scope]
    numbers: dict[str, float] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: ast.Module) -> Module:
        made = cls([Scope("")])
        made._enter(tree, made.scopes[0])
        for name, value in made.scopes[0].given():
            number = made.number(value)
            if number is not None:
                made.numbers[name] = number
        return made

    def _enter(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            scope.nodes[type(child)].append(child)
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    inner = Scope(f"{scope.name}.{child.name}".lstrip("."))
                    self.scopes.append(inner)
                case ast.Import(names=found):
                    self.imports |= {each.asname or each.name.partition(".")[0]: each.name for each in found}
                case ast.ImportFrom(module=origin, names=found):
                    self.imports |= {each.asname or each.name: f"{origin}.{each.name}" for each in found}
            self._enter(child, inner)

    def number(self, node: ast.expr | None) -> float | None:
        """What it is, where that is written in this module."""
        match node:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name(id=name):
                return self.numbers.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.number(left), self.number(right)
                return None if first is None or second is None else first + second
        return None

    @property
    def has_clock(self) -> bool:
        return any(name.partition(".")[0] == "time" for name in self.imports.values())

    def imported(self, node: ast.expr) -> str:
        """Its full name, if the module imported what that begins with."""
        match node:
            case ast.Name(id=name):
                return self.imports.get(name, "")
            case ast.Attribute(value=of, attr=name):
                before = self.imported(of)
                return f"{before}.{name}" if before else ""
        return ""


def last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def reads_clock(node: ast.AST) -> bool:
    """Python's own clock, which only tells how long something took."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="time" | "time_ns")):
                return True
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if called in CLOCKS:
                return True
    return False


def is_now(node: ast.AST) -> bool:
    """`clock.now()`, some time before or after it, or the same in another zone."""
    match node:
        case ast.BinOp(left=left):
            return is_now(left)
        case ast.Call(func=ast.Attribute(value=of, attr="astimezone")):
            return is_now(of)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="clock" | "datetime" | "timezone"), attr="now")):
            return True
    return False


# --- finders


def elapsed_time(module: Module) -> Found:
    """An assertion on how long something took, or on a deadline."""
    for scope in module.scopes:
        measured = scope.given() if module.has_clock and scope.claims else ()
        taken = {name for name, value in measured if reads_clock(value)}
        for claim in scope.claims:
            compared = [each for each in ast.walk(claim) if isinstance(each, ast.Compare)]
            if (module.has_clock and reads_clock(claim)) or any(
                names(each) & taken or _is_at_most(each) for each in compared
            ):
                yield scope.name, ast.unparse(claim)


def _is_at_most(claim: ast.Compare) -> bool:
    """Whether it sets a limit to a duration, or a deadline for the present time: a busy machine exceeds both."""
    sides = zip((claim.left, *claim.comparators), claim.ops, claim.comparators, strict=False)
    return any(
        isinstance(sign, ast.Lt | ast.LtE)
        and (_is_now_or_since(smaller) or (_is_duration(smaller) and isinstance(larger, ast.Constant)))
        for smaller, sign, larger in sides
    )


def _is_now_or_since(node: ast.expr) -> bool:
    """`clock.now()` itself, or what has passed since."""
    if isinstance(node, ast.Call) and is_now(node):
        return True
    return any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Sub)
        and is_now(each.left)
        and "timedelta" not in names(each.right)
        for each in ast.walk(node)
    )


def _is_duration(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return last(called) == "total_seconds" or last(called).startswith("duration")


def throughput(module: Module) -> Found:
    """How often something was done until a clock said so."""
    for scope in module.scopes:
        counted = {
            ast.unparse(each.target)
            for loop in scope.of(ast.While)
            if module.has_clock and reads_clock(loop.test)
            for each in ast.walk(loop)
            if isinstance(each, ast.AugAssign)
        }
        for claim in scope.claims if counted else ():
            if names(claim) & counted:
                yield scope.name, ast.unparse(claim)


def short_waits(module: Module) -> Found:
    """A wait that ends sooner than all others: to wait longer for what comes soon costs nothing."""
    for scope in module.scopes:
        asserted = {id(each) for claim in scope.claims for each in ast.walk(claim)}
        for call in scope.calls:
            called = last(call.func)
            if called not in WAITS and called not in OPENS:
                continue
            whole = called in {"until", "until_equal"} or (called == "wait" and id(call) in asserted)
            seconds = module.number(_seconds(call, WAITS.get(called)))
            if seconds is not None and (0 if whole else PAUSE_SECONDS) <= seconds < SECONDS:
                yield scope.name, ast.unparse(call)


def _seconds(call: ast.Call, place: int | None) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg in LIMITS), None)
    if named is not None or place is None:
        return named
    if isinstance(call.func, ast.Attribute) and call.func.attr == "until":
        place += 1  # a bench's, which is first told what it waits for
    return call.args[place] if len(call.args) > place else None


def short_results(module: Module) -> Found:
    """A thread's answer that is not waited for by `tests.waiting.result_of`."""
    for scope in module.scopes:
        for call in scope.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"result", "exception"}:
                timed = [*call.args, *(each.value for each in call.keywords if each.arg == "timeout")]
                if any(module.number(each) is not None for each in timed):
                    yield scope.name, ast.unparse(call)


def draws_without_a_seed(module: Module) -> Found:
    """A random draw without a seed: its failure cannot be reproduced."""
    for scope in module.scopes:
        for call in scope.calls:
            if (
                module.imported(call.func).startswith(DRAWERS)
                or (last(call.func) in GENERATORS and not call.args and not call.keywords)
                or last(call.func) == "SystemRandom"
                or any(each.arg == "use_true_random" for each in call.keywords)
            ):
                yield scope.name, ast.unparse(call)


def guessed_ports(module: Module) -> Found:
    """A port that was free when a socket let it go: another has it when it is used. `tests.ports` claims one."""
    for scope in module.scopes:
        if scope.name.rpartition(".")[2].strip("_") in PORTS:
            yield scope.name, "guesses"
        for block in scope.of(ast.With):
            for opened in (item.context_expr for item in block.items):
                if isinstance(opened, ast.Call) and _only_asks(last(opened.func), block):
                    yield scope.name, ast.unparse(opened)


def _only_asks(opener: str, block: ast.With) -> bool:
    """Whether the block binds a socket and closes it, or opens a server and asks it for nothing but its address."""
    called = {last(each.func) for part in block.body for each in ast.walk(part) if isinstance(each, ast.Call)}
    return (opener == "socket" and "bind" in called) or (
        opener == "create_server" and called == {"getsockname"}
    )


def todays_date(module: Module) -> Found:
    """Parts of the calendar of a clock that goes on: what is computed after midnight has others.

    Functions that freeze the clock are skipped, and so are functions that use a fixture of their module that freezes it.
    """
    standing = _standing(module)
    if "" in standing:
        return
    moments = {name for name, value in module.scopes[0].given() if is_now(value)}
    for scope in module.scopes:
        if scope.name in standing:
            continue
        known = moments | {name for name, value in scope.given() if is_now(value)}
        for call in scope.calls:
            if last(call.func) in TODAYS and module.imported(call.func).startswith(("datetime.", "django.")):
                yield scope.name, ast.unparse(call)
        for node in scope.of(ast.Attribute):
            if _is_moment(node.value, known) and (
                node.attr in PARTS or (node.attr == "replace" and _replaces_calendar(node, scope))
            ):
                yield scope.name, ast.unparse(node)
        for written in scope.of(ast.FormattedValue):
            if written.format_spec is not None and _is_moment(written.value, known):
                yield scope.name, ast.unparse(written)


def _is_moment(node: ast.expr, moments: set[str]) -> bool:
    return is_now(node) or bool(names(node) & moments and isinstance(node, ast.Name | ast.BinOp))


def _replaces_calendar(replace: ast.Attribute, scope: Scope) -> bool:
    return any(
        call.func is replace and CALENDAR & {each.arg for each in call.keywords} for call in scope.calls
    )


def _standing(module: Module) -> set[str]:
    """Names of the scopes in which the clock stands. They include the module's, which is empty, if it stands in all of them."""
    standing = {"still"}
    before = 0
    while len(standing) > before:
        before = len(standing)
        standing |= {scope.name for scope in module.scopes if _freezes(scope, standing)}
        if any(scope.name in standing and _is_for_all(scope) for scope in module.scopes):
            standing.add("")
    return standing


def _freezes(scope: Scope, fixtures: set[str]) -> bool:
    if fixtures & {each.arg for each in scope.of(ast.arg)}:
        return True
    return any(
        last(call.func) == "freeze"
        or (
            last(call.func) == "usefixtures" and fixtures & {getattr(each, "value", "") for each in call.args}
        )
        for call in scope.calls
    )


def _is_for_all(scope: Scope) -> bool:
    return any(each.arg == "autouse" for call in scope.calls for each in call.keywords)


def impatient_browsers(module: Module) -> Found:
    """What a page shows is waited for as long as anything else, unless it says less; some say it of all."""
    for scope in module.scopes:
        for call in scope.calls:
            limit = next((module.number(each.value) for each in call.keywords if each.arg == "timeout"), None)
            if limit is None or limit >= BROWSER_MILLISECONDS:
                continue
            called = last(call.func)
            if (
                "expect" in names(call.func)
                or called.startswith("wait_for_")
                or called == "set_default_timeout"
            ):
                yield scope.name, ast.unparse(call)


KINDS: tuple[Finder, ...] = (
    elapsed_time,
    throughput,
    short_waits,
    short_results,
    draws_without_a_seed,
    guessed_ports,
    todays_date,
    impatient_browsers,
)
