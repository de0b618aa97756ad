"""ResourceQuota: what an object uses, what a namespace has used, and the refusal."""

from __future__ import annotations

from fractions import Fraction

from .errors import forbidden
from .kinds import CLAIM, KINDS, LIMIT_RANGE, POD, QUOTA, Kind
from .objects import (
    Obj,
    dig,
    finished,
    name_of,
    namespace_of,
    pod_limits,
    pod_requests,
    quantity,
    show_quantity,
)
from .store import Store

_COUNTED_BY_NAME = {"pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas"}
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def usage(kind: Kind, obj: Obj) -> dict[str, Fraction]:
    """What one object counts for, by the quota's own keys."""
    used = {f"count/{kind.resource}": Fraction(1)}
    if kind is POD and finished(obj):
        return used
    if kind.resource in _COUNTED_BY_NAME:
        used[kind.resource] = Fraction(1)
    if kind is CLAIM:
        used["requests.storage"] = quantity(dig(obj, "spec.resources.requests.storage") or "0")
    if kind is POD:
        for key, value in pod_requests(obj["spec"]).items():
            used[f"requests.{key}"] = value
            if key in _COMPUTE:
                used[key] = value
        for key, value in pod_limits(obj["spec"]).items():
            if key in _COMPUTE:
                used[f"limits.{key}"] = value
    return used


def used(store: Store, namespace: str, hard: dict[str, str]) -> dict[str, Fraction]:
    """What the namespace uses of the keys in `hard`."""
    total = dict.fromkeys(hard, Fraction(0))
    for kind in KINDS:
        named = {kind.resource, f"count/{kind.resource}"} & hard.keys()
        if not kind.namespaced or not (named or kind is POD):
            continue
        for obj in store.list(kind, namespace):
            for key, value in usage(kind, obj).items():
                if key in total:
                    total[key] += value
    return total


def show(values: dict[str, Fraction], keys: list[str]) -> dict[str, str]:
    return {k: show_quantity(values[k], binary="memory" in k or "storage" in k) for k in keys}


def _text(values: dict[str, Fraction], keys: list[str]) -> str:
    return ",".join(f"{k}={v}" for k, v in show(values, keys).items())


def admit(store: Store, kind: Kind, obj: Obj) -> None:
    """Fill in what a LimitRange gives a container; refuse what would exceed a quota, in the words that people search for."""
    for limits in store.list(LIMIT_RANGE, namespace_of(obj)) if kind is POD else ():
        for item in dig(limits, "spec.limits") or []:
            given = item.get("defaultRequest") or {}
            for asks in (each.setdefault("resources", {}) for each in obj["spec"]["containers"]):
                asks["requests"] = given | (asks.get("limits") or {}) | (asks.get("requests") or {})
    for quota in store.list(QUOTA, namespace_of(obj)):
        hard = (quota.get("spec") or {}).get("hard") or {}
        wanted = {k: v for k, v in usage(kind, obj).items() if k in hard}
        if kind is POD:
            _must_specify(quota, hard, obj)
        if not wanted:
            continue
        have, limit = used(store, namespace_of(obj), hard), {k: quantity(v) for k, v in hard.items()}
        over = sorted(k for k, v in wanted.items() if v and have[k] + v > limit[k])
        if over:
            why = (
                f"exceeded quota: {name_of(quota)}, requested: {_text(wanted, over)}, "
                f"used: {_text(have, over)}, limited: {_text(limit, over)}"
            )
            raise forbidden(kind, name_of(obj), why)


def _must_specify(quota: Obj, hard: dict[str, str], pod: Obj) -> None:
    missing = []
    for key in sorted(hard):
        part, _, resource = key.partition(".") if "." in key else ("requests", "", key)
        if part not in {"requests", "limits"} or resource not in {"cpu", "memory"}:
            continue
        containers = pod["spec"]["containers"]
        names = [c["name"] for c in containers if resource not in (dig(c, f"resources.{part}") or {})]
        if names:
            missing.append(f"{key} for: {','.join(names)}")
    if missing:
        why = f"failed quota: {name_of(quota)}: must specify {'; '.join(missing)}"
        raise forbidden(POD, name_of(pod), why)
