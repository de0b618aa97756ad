"""The rules of a template: what it fills in, what it allows, what it alone decides. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from cluster import quantities
from workloads.podspec.grammar import Fault
from workloads.podspec.specs import Amount, Json

FILLED_BY_KEY = ("checkpoint", "labels")
"""Objects that a request may give in part and the template completes; any other field is given as a whole."""
NEVER_IN_A_TEMPLATE = ("team", "replaces", "template")
QUANTITIES = ("cpu", "memory", "shm", "ephemeral_storage")

Bound = int | str
Problems = list[tuple[str, Fault]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A template without its row. `minimum` and `maximum` are by dotted path, such as `checkpoint.interval_seconds`."""

    name: str
    version: int = 1
    defaults: Json = field(default_factory=dict)
    minimum: Mapping[str, Bound] = field(default_factory=dict)
    maximum: Mapping[str, Bound] = field(default_factory=dict)
    locked: Sequence[str] = ()


def fill(preset: Preset, body: Json) -> tuple[dict[str, Any], Problems]:
    """The body with the template's defaults for what it leaves out or gives as null, and what it may not change.

    A locked field is the template's in the result, also where another value was sent.
    """
    filled, problems = dict(body), []
    for name, value in preset.defaults.items():
        sent = body.get(name)
        if name in preset.locked:
            if sent is not None and not _same(name, sent, value):
                message = f"Template {preset.name} sets {name} to {_shown(value)}; it cannot be changed."
                problems.append((name, Fault("locked", message)))
            filled[name] = value
        elif sent is None:
            filled[name] = value
        elif name in FILLED_BY_KEY and isinstance(sent, Mapping) and isinstance(value, Mapping):
            own = {key: inner for key, inner in sent.items() if inner is not None}
            filled[name] = {**sent, **value, **own}
    return filled, problems


def outside(preset: Preset, spec: Json) -> Problems:
    """The fields of a complete request that are below the template's minimum or above its maximum."""
    problems: Problems = []
    for path in dict.fromkeys([*preset.minimum, *preset.maximum]):
        value = value_at(spec, path)
        code = _judged(value, preset.minimum.get(path), preset.maximum.get(path))
        if code:
            asked = "this request gives none" if value is None else f"this asks for {_shown(value)}"
            problems.append((path, Fault(code, f"{limits_in_words(preset, path)}; {asked}.")))
    return problems


def limits_in_words(preset: Preset, path: str) -> str:
    """Such as "Template small allows replicas from 1 to 4"; empty where the template sets no limit to it."""
    least, most = preset.minimum.get(path), preset.maximum.get(path)
    if least is None and most is None:
        return ""
    if least is None:
        return f"Template {preset.name} allows {path} up to {most}"
    if most is None:
        return f"Template {preset.name} asks for {path} of at least {least}"
    return f"Template {preset.name} allows {path} from {least} to {most}"


def contradictions(preset: Preset) -> Problems:
    """What contradicts itself in a template whose parts are each right; paths are those of the template."""
    return [*_bounds_apart(preset), *_defaults_outside(preset), *_locked_without_default(preset)]


def _bounds_apart(preset: Preset) -> Iterator[tuple[str, Fault]]:
    for path, least in preset.minimum.items():
        most = preset.maximum.get(path)
        if most is not None and _number(least) > _number(most):
            message = f"The minimum {least} is above the maximum {most}."
            yield f"minimum.{path}", Fault("minimum_above_maximum", message)


def _defaults_outside(preset: Preset) -> Iterator[tuple[str, Fault]]:
    for path in dict.fromkeys([*preset.minimum, *preset.maximum]):
        value = value_at(preset.defaults, path)
        least, most = preset.minimum.get(path), preset.maximum.get(path)
        if value is not None and (code := _judged(value, least, most)):
            yield f"defaults.{path}", Fault(code, f"{limits_in_words(preset, path)}; its default is another.")


def _locked_without_default(preset: Preset) -> Iterator[tuple[str, Fault]]:
    for index, name in enumerate(preset.locked):
        if preset.defaults.get(name) is None:
            message = f"{name} can be locked only with a value among the defaults."
            yield f"locked.{index}", Fault("no_default", message)


def value_at(body: Json, path: str) -> Any:
    """The value under a dotted path; None where there is none."""
    value: Any = body
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _judged(value: Any, least: Bound | None, most: Bound | None) -> str:
    """The code of what is wrong, or nothing. Of a request and a limit, each is held to the bound on its side."""
    if value is None:
        return "" if least is None else "below_minimum"
    amount = Amount.from_json(value)
    if least is not None and _number(amount.request) < _number(least):
        return "below_minimum"
    if most is not None and _number(amount.limit) > _number(most):
        return "above_maximum"
    return ""


def _number(value: Any) -> Decimal:
    return quantities.parse(value)


def _same(name: str, sent: Any, value: Any) -> bool:
    one, other = _plain(sent), _plain(value)
    if name in QUANTITIES and isinstance(one, (str, int)) and isinstance(other, (str, int)):
        with suppress(ValueError):
            return quantities.parse(one) == quantities.parse(other)
    return type(one) is type(other) and one == other


def _plain(value: Any) -> Any:
    """The value without nulls, and with an amount whose request is its limit as one quantity."""
    if isinstance(value, Mapping):
        values = {key: _plain(inner) for key, inner in value.items() if inner is not None}
        if values and set(values) <= {"request", "limit"} and len(set(map(str, values.values()))) == 1:
            return next(iter(values.values()))
        return values
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def _shown(value: Any) -> str:
    """A value within a sentence, shortened."""
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {inner}" for key, inner in value.items() if inner is not None)
        return text or "nothing"
    text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
