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
    match = _SET.fullmatch(term)
    if match:
        key, operator, text = match.groups()
        values = {v.strip() for v in text.split(",")}
        if operator == "in":
            return lambda obj: labels_of(obj).get(key) in values
        return lambda obj: labels_of(obj).get(key) not in values
    key, operator, value = _split(term)
    bare = key.removeprefix("!").strip()
    if not _KEY.fullmatch(bare) or not _VALUE.fullmatch(value):
        raise bad_request(
            f"unable to parse requirement: found '{term}', expected: in, notin, =, ==, !=, gt, lt"
        )
    if operator:
        return _comparison(key, operator, value)
    if key.startswith("!"):
        return lambda obj: bare not in labels_of(obj)
    return lambda obj: key in labels_of(obj)


def _comparison(key: str, operator: str, value: str) -> Test:
    if operator in {">", "<"}:
        expression = {"key": key, "operator": "Gt" if operator == ">" else "Lt", "values": [value]}
        return lambda obj: matches_expression(expression, labels_of(obj))
    if operator == "!=":
        return lambda obj: labels_of(obj).get(key) != value
    return lambda obj: labels_of(obj).get(key) == value


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
