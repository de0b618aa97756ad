"""Server-side apply: who owns which field, conflicts, and removal of fields that an applier no longer sends.

A field set is a frozenset of paths; a path is a tuple of steps as `fieldsV1` writes them: `f:name` for a field and
`k:{"name":"x"}` for a list item. A list without a merge key is one value.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from .errors import ApiError
from .kinds import Kind
from .objects import Obj, timestamp
from .patch import strategic
from .schema import MERGE_KEYS, field_type, inner_type

Path = tuple[str, ...]
_ATOMIC = "LabelSelector"
"""Owned and replaced as a whole."""
_UNOWNED = {("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace")}
_SERVER_SET = {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp",
               "deletionGracePeriodSeconds", "selfLink", "generateName"}  # fmt: skip


def leaves(type_: str, value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every owned path under `value` with its value; the presence of a keyed list item counts as one."""
    if type_ in MERGE_KEYS and isinstance(value, list):
        for item in value:
            step = (*path, _item_step(type_, item))
            yield (*step, "."), None
            yield from leaves(inner_type(type_), item, step)
    elif isinstance(value, dict) and value and type_ != _ATOMIC:
        for key, item in value.items():
            step, server_set = (*path, f"f:{key}"), path == ("f:metadata",) and key in _SERVER_SET
            if step not in _UNOWNED and not server_set and key != "status":
                yield from leaves(field_type(type_, key), item, step)
    else:
        yield path, value


def _item_step(type_: str, item: Obj) -> str:
    keys = {k: item.get(k, "TCP" if k == "protocol" else None) for k in MERGE_KEYS[type_]}
    return "k:" + json.dumps(keys, separators=(",", ":"), sort_keys=True)


def _nested(paths: set[Path]) -> Obj:
    """`fieldsV1` as it is stored."""
    tree: Obj = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    return tree


def _flat(tree: Obj, path: Path = ()) -> Iterator[Path]:
    for step, inner in tree.items():
        if inner:
            yield from _flat(inner, (*path, step))
        else:
            yield (*path, step)


def _owned(entry: Obj) -> set[Path]:
    return set(_flat(entry.get("fieldsV1", {})))


def _entry(kind: Kind, manager: str, operation: str, paths: set[Path], subresource: str = "") -> Obj:
    entry = {
        "manager": manager, "operation": operation, "apiVersion": kind.api_version, "time": timestamp(),
        "fieldsType": "FieldsV1", "fieldsV1": _nested(paths),
    }  # fmt: skip
    return entry | ({"subresource": subresource} if subresource else {})


def _same(entry: Obj, manager: str, operation: str, subresource: str = "") -> bool:
    known = (entry["manager"], entry["operation"], entry.get("subresource", ""))
    return known == (manager, operation, subresource)


def note_update(kind: Kind, old: Obj | None, new: Obj, manager: str, subresource: str = "") -> None:
    """After a create, update or plain patch: the fields that it changed now belong to `manager`."""
    entries: list[Obj] = list((old or new)["metadata"].get("managedFields") or [])
    before, after = dict(leaves(kind.name, old or {})), dict(leaves(kind.name, new))
    changed = {p for p, v in after.items() if p not in before or before[p] != v} - {()}
    gone = set(before) - set(after)
    if not changed and not gone:
        if entries:
            new["metadata"]["managedFields"] = entries
        return
    mine, kept = set(changed), []
    for entry in entries:
        if _same(entry, manager, "Update", subresource):
            mine |= _owned(entry) - gone
        else:
            rest = _owned(entry) - changed - gone
            kept += [entry | {"fieldsV1": _nested(rest)}] if rest else []
    new["metadata"]["managedFields"] = [*kept, _entry(kind, manager, "Update", mine, subresource)]


def server_side_apply(kind: Kind, live: Obj | None, wanted: Obj, manager: str, *, force: bool) -> Obj:
    """The merged object; raises the 409 that names the other owners unless `force`."""
    config = dict(leaves(kind.name, wanted))
    config.pop((), None)
    current = dict(leaves(kind.name, live or {}))
    entries: list[Obj] = list((live or {}).get("metadata", {}).get("managedFields") or [])
    others = [e for e in entries if not _same(e, manager, "Apply")]
    conflicts = [
        (entry, path) for entry in others for path in sorted(_owned(entry) & set(config))
        if path[-1] != "." and current.get(path) != config[path]
    ]  # fmt: skip
    if conflicts and not force:
        raise _conflict(conflicts)
    merged: Obj = strategic(kind.name, live or {}, wanted, atomic=_ATOMIC)
    previous = {p for e in entries if _same(e, manager, "Apply") for p in _owned(e)}
    held = {p for e in others for p in _owned(e)}
    for path in sorted(previous - set(config) - held, key=lambda p: (p[-1] != ".", -len(p))):
        _drop(kind.name, merged, path)
    lost = {path for _, path in conflicts}
    trimmed = [(e, _owned(e) - lost) for e in others]
    kept = [e | {"fieldsV1": _nested(rest)} for e, rest in trimmed if rest]
    mine = next((e for e in entries if _same(e, manager, "Apply")), None)
    if mine is None or _owned(mine) != set(config):
        mine = _entry(kind, manager, "Apply", set(config))
    merged.setdefault("metadata", {})["managedFields"] = [mine, *kept]
    return merged


def _drop(type_: str, node: Any, path: Path) -> None:
    """Remove one owned path, and the containers that it leaves empty."""
    step, rest = path[0], path[1:]
    if step.startswith("f:") and isinstance(node, dict):
        key = step[2:]
        if key in node and (not rest or rest == (".",)):
            del node[key]
        elif key in node:
            node[key] = copy.copy(node[key])
            _drop(field_type(type_, key), node[key], rest)
            if node[key] in ({}, []):
                del node[key]
    elif step.startswith("k:") and isinstance(node, list):
        index = next((i for i, item in enumerate(node) if _item_step(type_, item) == step), None)
        if index is None:
            return
        if rest == (".",):
            del node[index]
        else:
            node[index] = dict(node[index])
            _drop(inner_type(type_), node[index], rest)


def _dotted(path: Path) -> str:
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            keys = json.loads(step[2:])
            text += "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in keys.items()) + "]"
    return text


def _shown(entry: Obj) -> str:
    text = json.dumps(entry["manager"])
    if entry.get("subresource"):
        text += f" with subresource {json.dumps(entry['subresource'])}"
    if entry["operation"] == "Update":
        text += f" using {entry['apiVersion']}" + (f" at {entry['time']}" if entry.get("time") else "")
    return text


def _conflict(conflicts: list[tuple[Obj, Path]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_shown(e)}", "field": _dotted(p)}
        for e, p in conflicts
    ]  # fmt: skip
    if len(conflicts) == 1:
        text = f"conflict: conflict with {_shown(conflicts[0][0])}: {_dotted(conflicts[0][1])}"
    else:
        lines: list[str] = []
        for manager in sorted({_shown(e) for e, _ in conflicts}):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {_dotted(p)}" for e, p in conflicts if _shown(e) == manager]
        text = "conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", f"Apply failed with {len(conflicts)} {text}", {"causes": causes})


def handed(sent: Any, known: Any) -> Any:
    """The managers that a writer sends, where they are others than those that are known; times do not count."""
    if not sent or not known:
        return known
    same = [{**entry, "time": ""} for entry in sent] == [{**entry, "time": ""} for entry in known]
    return known if same else sent
