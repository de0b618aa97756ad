"""docs/reference/error-codes.md: the codes that problem documents have, found in the source files that raise them."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rest_framework import serializers

from cluster import proxy_rules
from docs.generate.code_sentences import SENTENCES, WARNINGS
from foundation.errors import PortalError
from portal.settings import env

PACKAGES: Final = (
    "advisor", "budgets", "cluster", "console", "controller", "costs", "foundation", "gateway", "inference", "jobs", "logs", "policy", "portal/runtime", "telemetry",
    "quotas", "teams", "tenancy", "workloads",
)  # fmt: skip
# What only people see, in pages and forms.
_PAGES: Final = {"pages", "migrations", "forms.py", "admin.py", "member_views.py", "views.py"}
# Raised with no status of its own: a field of a body.
_FIELD_STATUS: Final = 422
_UNREADABLE: Final = Path("foundation", "http", "parsers.py")
_BY_CALL: Final[Mapping[str, int]] = {"refuse": 400, "AuthenticationFailed": 401}
# A code by its position, where it has no name.
_POSITIONS: Final[Mapping[str, int]] = {"Fault": 0, "fail": 0, "Hint": 1}
# DRF raises these itself; foundation.http.problems answers them.
_OF_DRF: Final[Mapping[str, int]] = {
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "unsupported_media_type": 415,
}
# Statuses of an API server that passes a request on.
_OF_THE_CLUSTER: Final = (400, 401, 403, 404, 429, 503, 504)
# The fields that request bodies are made of, each with the codes of its messages.
_FIELDS: Final[tuple[type[serializers.Field[Any, Any, Any, Any]], ...]] = (
    serializers.BooleanField, serializers.CharField, serializers.ChoiceField, serializers.DateTimeField, serializers.DictField,
    serializers.FloatField, serializers.IntegerField, serializers.ListField, serializers.UUIDField,
)  # fmt: skip
# Of values that these fields have no way to be given.
_NEVER: Final = {"date", "overflow", "make_aware"}
Found = Mapping[str, set[int]]


def page() -> list[str]:
    """The lines of the page. KeyError for a code without a sentence."""
    codes, warnings = found()
    return [
        "# Error codes",
        "",
        "The `code` of a [problem document](rest-conventions.md#errors), and those of the fields in its `errors`. A code stays what it is;",
        "new ones may come.",
        "",
        f"{len(codes)} codes. Besides them a 503 of an endpoint's gateway names in `errors` its [phase and its reason](workload-phases.md).",
        "",
        "| code | status | when |",
        "|---|---|---|",
        *(f"| `{code}` | {_listed(codes[code])} | {SENTENCES[code]} |" for code in sorted(codes)),
        "",
        "## Warnings",
        "",
        "The `code` of `warnings`, which refuse nothing.",
        "",
        "| code | when |",
        "|---|---|",
        *(f"| `{code}` | {WARNINGS[code]} |" for code in sorted(warnings)),
    ]


def _listed(statuses: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(statuses)))


def found() -> tuple[Found, frozenset[str]]:
    """Every code with the statuses that it is raised with, and the codes of warnings."""
    codes: dict[str, set[int]] = defaultdict(set)
    warnings: set[str] = set()
    for tree, of_fields in _trees():
        reader = _Reader(tree, of_fields=of_fields)
        for node in ast.walk(tree):
            for code, status in reader.codes(node):
                if status is None:
                    warnings.add(code)
                else:
                    codes[code].add(status)
    for code, status in (*_OF_DRF.items(), *_of_fields(), *_of_proxy()):
        codes[code].add(status)
    return codes, frozenset(warnings)


def _of_fields() -> Iterator[tuple[str, int]]:
    kinds = {parent for field in _FIELDS for parent in field.__mro__}
    for kind in kinds:
        yield from (
            (code, _FIELD_STATUS)
            for code in getattr(kind, "default_error_messages", {})
            if code not in _NEVER
        )


def _of_proxy() -> Iterator[tuple[str, int]]:
    """What the gateway says of a request that the cluster did not pass on."""
    failures = [proxy_rules.status_failure({"code": status}) for status in _OF_THE_CLUSTER]
    failures += [proxy_rules.too_large(what, 1) for what in ("request", "response")]
    for failure in failures:
        yield failure.reason.replace("-", "_"), failure.status


def _trees() -> Iterator[tuple[ast.Module, int]]:
    """Every module, with the status that a wrong field has in it."""
    for package in PACKAGES:
        for path in sorted((env.BASE_DIR / package).rglob("*.py")):
            if not _PAGES & {*path.relative_to(env.BASE_DIR).parts}:
                unreadable = path == env.BASE_DIR / _UNREADABLE
                yield ast.parse(path.read_text(encoding="utf-8")), 400 if unreadable else _FIELD_STATUS


def _errors() -> dict[str, type[PortalError]]:
    """Every kind of error by its name."""
    for package in ("gateway", "inference", "quotas", "teams", "workloads"):
        importlib.import_module(f"{package}.errors")
    known, waiting = {}, [PortalError]
    while waiting:
        kind = waiting.pop()
        known[kind.__name__] = kind
        waiting.extend(kind.__subclasses__())
    return known


class _Reader:
    """The codes in one module."""

    def __init__(self, tree: ast.Module, *, of_fields: int) -> None:
        self.errors, self.of_fields = _errors(), of_fields
        values = dict(_constants(tree))
        self.texts = {name: each.value for name, each in values.items() if isinstance(each, ast.Constant)}
        self.tables = {name: each for name, each in values.items() if isinstance(each, ast.Dict)}
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.taking = {name: node for name, node in self.functions.items() if _place(node) is not None}

    def codes(self, node: ast.AST) -> Iterator[tuple[str, int | None]]:
        """Codes that the node gives, each with its status; None for a warning."""
        if isinstance(node, ast.Call):
            yield from self._of_call(node)
        elif isinstance(node, ast.ClassDef) and node.name in self.errors and node.name != "PortalError":
            yield self.errors[node.name].code, self.errors[node.name].status
        elif isinstance(node, ast.FunctionDef) and node.name in self.taking:
            for default in [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]:
                if (
                    isinstance(default, ast.Constant)
                    and isinstance(default.value, str)
                    and default.value.isidentifier()
                ):
                    yield default.value, self._status(node)
        elif isinstance(node, ast.Assign | ast.NamedExpr):
            yield from self._returned(node)

    def _of_call(self, call: ast.Call) -> Iterator[tuple[str, int | None]]:
        name, status = _name(call.func), self._status_of(call)
        given = [each.value for each in call.keywords if each.arg == "code"]
        place = _POSITIONS.get(name)
        if place is None and name in self.taking:
            place = _place(self.taking[name])
        if place is not None and len(call.args) > place:
            given.append(call.args[place])
        if name == "ProxyFailed":
            yield from self._of_proxy(call)
        for value in given:
            yield from ((code, None if name == "Hint" else status) for code in self._values(value))

    def _of_proxy(self, call: ast.Call) -> Iterator[tuple[str, int]]:
        """What the service proxy says in its own words, which the gateway writes as codes."""
        given = {each.arg: each.value for each in call.keywords}
        if isinstance(given["status"], ast.Constant) and isinstance(given["reason"], ast.Constant):
            yield str(given["reason"].value).replace("-", "_"), int(str(given["status"].value))

    def _values(self, value: ast.expr) -> Iterator[str]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
        elif isinstance(value, ast.IfExp):
            yield from (*self._values(value.body), *self._values(value.orelse))
        elif isinstance(value, ast.Name) and isinstance(text := self.texts.get(value.id), str):
            yield text
        elif isinstance(value, ast.Subscript) and _name(value.value) in self.tables:
            for each in self.tables[_name(value.value)].values:
                yield from self._values(each)

    def _returned(self, node: ast.Assign | ast.NamedExpr) -> Iterator[tuple[str, int]]:
        """Of `code = _judged(…)`, what that function answers."""
        target = node.target if isinstance(node, ast.NamedExpr) else node.targets[0]
        call = node.value
        if isinstance(target, ast.Name) and target.id == "code" and isinstance(call, ast.Call):
            for each in ast.walk(self.functions.get(_name(call.func), ast.Pass())):
                if isinstance(each, ast.Return) and each.value is not None:
                    yield from ((code, _FIELD_STATUS) for code in self._values(each.value) if code)

    def _status_of(self, call: ast.Call) -> int:
        name = _name(call.func)
        owner = _name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        for each in (owner, name):
            if each in self.errors:
                return self.errors[each].status
        if name in self.taking:
            return self._status(self.taking[name])
        written = [each.value for each in call.keywords if each.arg == "status"]
        if name == "Problem" and written and isinstance(written[0], ast.Constant):
            return int(str(written[0].value))
        return _BY_CALL.get(name, self.of_fields)

    def _status(self, function: ast.FunctionDef) -> int:
        """That of the error which the function makes."""
        made = (_name(each.func) for each in ast.walk(function) if isinstance(each, ast.Call))
        owners = (
            _name(each.func.value)
            for each in ast.walk(function)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        )
        kinds = [self.errors[name].status for name in (*made, *owners) if name in self.errors]
        return kinds[0] if kinds else _FIELD_STATUS


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _place(function: ast.FunctionDef) -> int | None:
    """The position of the parameter `code`, as callers count."""
    names = [each.arg for each in function.args.args if each.arg not in {"self", "cls"}]
    return names.index("code") if "code" in names else None


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """What the module's own names stand for."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield _name(target), node.value
