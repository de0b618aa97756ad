"""Small pure helpers over Kubernetes objects as plain dictionaries."""

from __future__ import annotations

import calendar
import functools
import re
import secrets
import time
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from .kinds import Kind

Obj = dict[str, Any]

_SUFFIX = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    **{s: Fraction(1000 ** (i + 1)) for i, s in enumerate("kMGTPE")},
    **{s + "i": Fraction(1024 ** (i + 1)) for i, s in enumerate("KMGTPE")},
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
RANDOM_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@functools.lru_cache(maxsize=4096)
def quantity(text: str | float) -> Fraction:
    """The exact value of `500m`, `2Gi`, `1e3`; ValueError when it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(text)
    number, exponent, suffix = match.groups()
    return Fraction(number + (exponent or "")) * _SUFFIX[suffix or ""]


def show_quantity(value: Fraction, *, binary: bool = False) -> str:
    """The canonical text; `binary` for bytes."""
    if value.denominator != 1:
        return f"{-(-value.numerator * 1000 // value.denominator)}m"
    if binary and value:
        for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
            if value % _SUFFIX[suffix] == 0:
                return f"{value / _SUFFIX[suffix]}{suffix}"
    return str(value.numerator)


def timestamp(at: float | None = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() if at is None else at))


def seconds(stamp: str) -> float:
    """Unix seconds of an RFC 3339 time in UTC, with or without a fraction."""
    whole, _, fraction = stamp.removesuffix("Z").replace("+00:00", "").partition(".")
    epoch = _epoch(whole)
    return epoch + (float("0." + fraction) if fraction else 0.0)


@functools.lru_cache(maxsize=4096)
def _epoch(whole: str) -> int:
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))


def random_suffix(length: int = 5) -> str:
    return "".join(secrets.choice(RANDOM_ALPHABET) for _ in range(length))


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def namespace_of(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


def key_of(obj: Obj) -> tuple[str, str]:
    """Namespace and name."""
    return namespace_of(obj), name_of(obj)


def uid_of(obj: Obj) -> str:
    return str(obj["metadata"]["uid"])


def labels_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def containers_of(spec: Obj) -> list[Obj]:
    """Those of a pod that run before the others, then these."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def dig(obj: Obj, path: str) -> Any:
    """What is at a path like `spec.template.spec`; None where nothing is."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def started(obj: Obj) -> bool:
    return "startTime" in obj.get("status", {})


def deleting(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: Obj) -> Obj | None:
    return next((r for r in obj["metadata"].get("ownerReferences", ()) if r.get("controller")), None)


def owner_reference(kind: Kind, owner: Obj) -> Obj:
    return {
        "apiVersion": kind.api_version, "kind": kind.name, "name": name_of(owner), "uid": uid_of(owner),
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def phase_of(pod: Obj) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def finished(pod: Obj) -> bool:
    return phase_of(pod) in {"Succeeded", "Failed"}


def condition(obj: Obj, type_: str) -> Obj | None:
    return next((c for c in obj.get("status", {}).get("conditions") or () if c["type"] == type_), None)


def is_true(obj: Obj, type_: str) -> bool:
    state = condition(obj, type_)
    return state is not None and state["status"] == "True"


def made_condition(type_: str, status: str, reason: str = "", message: str = "") -> Obj:
    """A condition without its times; an empty reason or message is left out."""
    made = {"type": type_, "status": status, "reason": reason, "message": message}
    return {key: text for key, text in made.items() if text}


def with_condition(conditions: Iterable[Obj], new: Obj) -> list[Obj]:
    """The list with `new` in it; its transition time is kept while its status stays the same."""
    result, stamped = [], {"lastTransitionTime": timestamp()} | new
    for old in conditions:
        if old["type"] != new["type"]:
            result.append(old)
        elif old["status"] == new["status"] and "lastTransitionTime" in old:
            stamped["lastTransitionTime"] = old["lastTransitionTime"]
    position = next((i for i, old in enumerate(conditions) if old["type"] == new["type"]), len(result))
    result.insert(position, stamped)
    return result


def matches(selector: Obj | None, labels: dict[str, str]) -> bool:
    """A LabelSelector: absent selects nothing, empty selects everything."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(matches_expression(e, labels) for e in selector.get("matchExpressions") or ())


def matches_expression(expression: Obj, labels: dict[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            return _compare(operator, value, values)


def _compare(operator: str, value: str | None, values: list[str]) -> bool:
    """Gt and Lt of node affinity; a label that is no number never matches."""
    try:
        left, right = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def _sums(containers: list[Obj], part: str) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for container in containers:
        for key, value in ((container.get("resources") or {}).get(part) or {}).items():
            total[key] = total.get(key, Fraction(0)) + quantity(value)
    return total


def pod_requests(spec: Obj) -> dict[str, Fraction]:
    """What the scheduler counts for a pod: the containers' sum, at least the largest init container, and its overhead."""
    total = _sums(spec.get("containers") or [], "requests")
    for container in spec.get("initContainers") or ():
        for key, value in _sums([container], "requests").items():
            total[key] = max(total.get(key, Fraction(0)), value)
    for key, value in (spec.get("overhead") or {}).items():
        total[key] = total.get(key, Fraction(0)) + quantity(value)
    return total


def pod_limits(spec: Obj) -> dict[str, Fraction]:
    return _sums(spec.get("containers") or [], "limits")
