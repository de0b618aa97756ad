"""A form filled in from a request, so that nothing of the request is lost: what has no input is carried as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.specs import Json
from foundation.errors import Invalid
from jobs.specs import TrainingRunSpec

SAID_ELSEWHERE = frozenset({"team", "name", "replaces", "template", "template_version"})
NOTHING: tuple[Any, ...] = (None, "", [], {})


def rest_of(request: Json, typed: Json) -> tuple[dict[str, Any], list[str]]:
    """What of the request the typed body does not say: as a body, and the fields whose inputs must be emptied for it.

    Of an object that is typed in part, such as a checkpoint, the rest is the other part.
    """
    wanted, have = _normal(request), _normal(typed)
    rest: dict[str, Any] = {}
    emptied: list[str] = []
    for name in request:
        value = wanted.get(name)
        if name in SAID_ELSEWHERE or value == have.get(name):
            continue
        part = _other_part(value, have.get(name))
        if part is None:
            emptied.append(name)
        if value not in NOTHING:
            rest[name] = value if part is None else part
    return rest, emptied


def _other_part(value: Any, typed: Any) -> dict[str, Any] | None:
    """What to merge into the typed object to make it the value; None where that cannot be."""
    if not isinstance(value, Mapping) or not isinstance(typed, Mapping):
        return None
    if any(typed[key] is not None and key not in value for key in typed):
        return None
    return {key: inner for key, inner in value.items() if typed.get(key) != inner}


def _normal(request: Json) -> Mapping[str, Any]:
    """The request with every default written out, and its arguments behind its command, where they go anyway."""
    given = {key: value for key, value in request.items() if value not in NOTHING}
    if given.get("command") and given.get("args"):
        given |= {"command": [*given["command"], *given.pop("args")], "args": []}
    try:
        return TrainingRunSpec.from_json({"name": "", "image": "", **given}).to_json()
    except (Invalid, KeyError, TypeError, ValueError, AttributeError):
        # Of a request that is not checked yet, what is wrong is said where it is judged.
        return request


def combined(typed: Json, rest: Json) -> tuple[dict[str, Any], list[str]]:
    """The body that was typed, completed by the rest; and the fields that both give in different ways."""
    body, twice = dict(typed), []
    for name, value in rest.items():
        have = body.get(name)
        if have in NOTHING or have == value:
            body[name] = value
        elif isinstance(have, Mapping) and isinstance(value, Mapping):
            body[name] = {**have, **value}
        else:
            twice.append(name)
    return body, twice
