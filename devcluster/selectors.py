"""`labelSelector` and `fieldSelector` of list, watch and deletecollection."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from .errors import bad_request
from .kinds import EVENT, JOB, NAMESPACE, NODE, POD, Kind
from .objects import Obj, dig, labels_of, matches_expression

_SET = re.compile(r"\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*")
_KEY = re.compile(r"[-A-Za-z0-9_./]+")
_VALUE = re.compile(r"[-A-Za-z0-9_.]*")
_TERM = re.compile(r"[^,(]*(?:\([^)]*\))?[^,]*")
_OPERATORS = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_EVERYWHERE = ("metadata.name", "metadata.namespace")
_FIELDS: dict[Kind, tuple[str, ...]] = {
    POD: ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"),
    NODE: ("spec.unschedulable",),
    NAMESPACE: ("status.phase",),
    JOB: ("status.successful",),
    EVENT: (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
}  # fmt: skip
Test = Callable[[Obj], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a request wants to see."""

    namespace: str
    name: str
    tests: tuple[Test, ...]

    def __call__(self, obj: Obj) -> bool:
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        return (not self.name or metadata["name"] == self.name) and all(test(obj) for test in self.tests)


def selection(kind: Kind, namespace: str, name: str, labels: str, fields: str) -> Selection:
    tests = [_label_test(t.strip()) for t in _TERM.findall(labels) if t.strip()]
    tests += [_field_test(kind, t.strip()) for t in fields.split(",") if t.strip()]
    return Selection(namespace, name, tuple(tests))


def _label_test(term: str) -> Test:
    several = _SET.fullmatch(term)
    key, sign, text = several.groups() if several else _split(term)
    bare = key if sign else key.removeprefix("!").strip()
    values = [value.strip() for value in text.split(",")] if several else [text]
    if not _KEY.fullmatch(bare) or not all(map(_VALUE.fullmatch, values)):
        raise bad_request(
            f"unable to parse requirement: found '{term}', expected: in, notin, =, ==, !=, gt, lt"
        )
    operator = _OPERATORS[sign] if sign else "Exists" if bare == key else "DoesNotExist"
    expression = {"key": bare, "operator": operator, "values": values}
    return lambda obj: matches_expression(expression, labels_of(obj))


def _split(term: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "=", ">", "<"):
        key, sign, value = term.partition(operator)
        if sign:
            return key.strip(), operator, value.strip()
    return term, "", ""


def _field_test(kind: Kind, term: str) -> Test:
    path, operator, value = _split(term)
    known = (*_EVERYWHERE, *_FIELDS.get(kind, ()))
    if path not in known:
        listed = ", ".join(f'"{k}"' for k in known)
        raise bad_request(f'"{path}" is not a known field selector: only {listed}')
    if operator == "!=":
        return lambda obj: _text(obj, path) != value
    return lambda obj: _text(obj, path) == value


def _text(obj: Obj, path: str) -> str:
    """A field as a selector compares it."""
    value = dig(obj, path)
    return json.dumps(value) if isinstance(value, bool) else "" if value is None else str(value)
