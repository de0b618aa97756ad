"""The three plain kinds of patch; server-side apply is in apply.py."""

from __future__ import annotations

import copy
import json
from typing import Any

from .errors import ApiError, bad_request
from .schema import MERGE_KEYS, field_type, inner_type, merge_key


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(type_: str, target: Any, patch: Any, *, atomic: str = "") -> Any:
    """Merge with lists joined by their merge key; understands `$patch: delete|replace`. An `atomic` type is one value."""
    if type_ in MERGE_KEYS and isinstance(patch, list):
        return _strategic_list(type_, target or [], patch, atomic)
    if not isinstance(patch, dict) or (atomic and type_ == atomic):
        return patch
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(field_type(type_, key), result.get(key), value, atomic=atomic)
    return result


def _strategic_list(type_: str, target: list[Any], patch: list[Any], atomic: str) -> list[Any]:
    inner = inner_type(type_)
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    items = {merge_key(type_, item): item for item in target}
    for item in patch:
        key = merge_key(type_, item)
        if item.get("$patch") == "delete":
            items.pop(key, None)
        else:
            items[key] = strategic(inner, items.get(key), item, atomic=atomic)
    return list(items.values())


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _operate(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            path = operation.get("path") if isinstance(operation, dict) else None
            message = f"the server rejected our request due to an error in our request: {path!r}: {error}"
            raise ApiError(422, "Invalid", message) from error
    return document


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    name, tokens = operation["op"], _tokens(operation["path"])
    match name:
        case "test":
            if _find(document, tokens) != operation["value"]:
                raise ValueError(f"testing value {operation['path']} failed")
        case "remove":
            _remove(document, tokens)
        case "replace":
            _find(document, tokens)
            return _set(document, tokens, operation["value"], insert=False)
        case "add":
            return _set(document, tokens, operation["value"], insert=True)
        case "copy" | "move":
            source = _tokens(operation["from"])
            value = copy.deepcopy(_find(document, source))
            if name == "move":
                _remove(document, source)
            return _set(document, tokens, value, insert=True)
        case _:
            raise ValueError(f"Unexpected kind: {json.dumps(name)}")
    return document


def _tokens(path: str) -> list[str]:
    return [t.replace("~1", "/").replace("~0", "~") for t in path.split("/")[1:]]


def _find(document: Any, tokens: list[str]) -> Any:
    for token in tokens:
        document = document[int(token)] if isinstance(document, list) else document[token]
    return document


def _remove(document: Any, tokens: list[str]) -> None:
    parent = _find(document, tokens[:-1])
    del parent[int(tokens[-1]) if isinstance(parent, list) else tokens[-1]]


def _set(document: Any, tokens: list[str], value: Any, *, insert: bool) -> Any:
    if not tokens:
        return value
    parent, last = _find(document, tokens[:-1]), tokens[-1]
    if not isinstance(parent, list):
        parent[last] = value
    elif insert:
        parent.insert(len(parent) if last == "-" else int(last), value)
    else:
        parent[int(last)] = value
    return document
