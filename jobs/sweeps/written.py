"""The parameters of a sweep as a person writes them, one a line: `lr = 0.1, 0.01` or `seed = 1..9 step 2`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})(?:\s+step\s+({_NUMBER}))?", re.ASCII)
# Nothing is given back: however many spaces there are, each is read once.
_VALUE = re.compile(r'\s*+("(?:\\.|[^"\\])*+"|[^,"]*+)\s*+(,|$)', re.DOTALL)
_PLAIN = {"true": True, "false": False}


def read_parameters(text: str) -> dict[str, Any]:
    """The parameters as a request has them. ValueError names the line that is none."""
    parameters: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, equals, values = (part.strip() for part in line.partition("="))
        if not equals or not name or not values:
            raise ValueError(f"Line {number}: write name = value, value, or name = 1..5.")
        if name in parameters:
            raise ValueError(f"Line {number}: {name[:40]} is given twice.")
        try:
            parameters[name] = _values(values)
        except ValueError as error:
            raise ValueError(f"Line {number}: {error}") from error
    return parameters


def _values(text: str) -> list[Any] | dict[str, Any]:
    if found := _RANGE.fullmatch(text):
        start, end, step = found.groups()
        bounds = {"from": _number(start), "to": _number(end)}
        return bounds if step is None else {**bounds, "step": _number(step)}
    values, place = [], 0
    while True:
        part = _VALUE.match(text, place)
        if part is None:
            raise ValueError("a quoted value ends with its quote, before a comma or the end of the line.")
        values.append(_value(part[1].strip()))
        place = part.end()
        if not part[2]:
            return values


def _value(text: str) -> Any:
    """A number, true or false as what they are, what is quoted as it stands between the quotes, all else as text."""
    if text.startswith('"'):
        return json.loads(text)
    if re.match(rf"{_NUMBER}\s*\.\.", text):
        raise ValueError("a range stands alone: name = 1..5, or name = 1..9 step 2.")
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return _number(text)
    return _PLAIN.get(text, text)


def _number(text: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"-?\d+", text, re.ASCII) else float(text)
    except ValueError as error:
        raise ValueError("a number has fewer digits.") from error


def written_parameters(parameters: Mapping[str, Any]) -> str:
    """The lines that `read_parameters` reads as these."""
    return "\n".join(f"{name} = {_written(values)}" for name, values in parameters.items())


def _written(values: Sequence[Any] | Mapping[str, Any]) -> str:
    if isinstance(values, Mapping):
        step = values.get("step")
        return f"{values['from']}..{values['to']}" + ("" if step is None else f" step {step}")
    return ", ".join(_one(value) for value in values)


def _one(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        plain = value == value.strip() and not set(value) & set(',"\n\r') and _value(value) == value
    except ValueError:
        plain = False
    return value if plain and value else json.dumps(value)


def can_be_written(parameters: Mapping[str, Any]) -> bool:
    """Whether the lines say the same."""
    try:
        return read_parameters(written_parameters(parameters)) == dict(parameters)
    except ValueError:
        return False
