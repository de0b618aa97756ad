"""What one version of an endpoint's spec changes against another, and what each change does. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from inference.runtimes import CUSTOM
from inference.specs import SIZE_FIELDS
from inference.triggers import TRIGGERS

Json = Mapping[str, Any]


class Effect(StrEnum):
    """What a change does to what runs."""

    ROLLOUT = "rollout"
    """Every pod is replaced by a new one."""
    SIZE = "size"
    """More or fewer pods, of the same kind; the claim follows."""
    ROUTING = "routing"
    """How requests are let through; no pod notices."""
    NEXT_ROLLOUT = "next-rollout"
    """How a rollout goes."""
    FIXED = "fixed"
    """Cannot be changed while it exists."""


FIXED_FIELDS: Mapping[str, str] = {
    "name": "A name is for life, because its address has it.",
    "flavor": "It holds its quota for this flavor.",
    "capacity": "It holds its quota for this capacity type.",
    "gpus_per_replica": "It holds its quota for pods of this size.",
}
"""Fields that make another endpoint, with why."""
_EFFECTS: Mapping[str, Effect] = {
    **dict.fromkeys(FIXED_FIELDS, Effect.FIXED),
    **dict.fromkeys(SIZE_FIELDS, Effect.SIZE),
    "rate_limit": Effect.ROUTING,
    "rollout": Effect.NEXT_ROLLOUT,
    "image_pull_deadline_seconds": Effect.NEXT_ROLLOUT,
}


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One field; `before` or `after` is None where it was or is not given."""

    field: str
    before: Any
    after: Any
    effect: Effect


def changes_between(before: Json, after: Json) -> list[SpecChange]:
    """Every field that differs, by its dotted path."""
    # Who wrote an amount says nothing about the amount.
    versions = [
        {name: value for name, value in version.items() if name != "left_out"} for version in (before, after)
    ]
    differences = sorted(_differences("", *versions), key=lambda version: version[0])
    return [SpecChange(path, old, new, effect_of(path)) for path, old, new in differences]


def effect_of(field: str) -> Effect:
    """What a change of the field does; a field that is not listed replaces pods."""
    return _EFFECTS.get(field.split(".", 1)[0], Effect.ROLLOUT)


def same_pods(before: Json, after: Json) -> bool:
    """Whether pods of the one are as good as pods of the other."""
    return all(change.effect is not Effect.ROLLOUT for change in changes_between(before, after))


def size_of(version: Json) -> dict[str, Any]:
    """The fields of the version that say how many pods there are."""
    return {key: version[key] for key in SIZE_FIELDS if key in version}


def with_size_of(version: Json, other: Json) -> dict[str, Any]:
    """The version with the other one's size, as a way back keeps it; a trigger that its own server lacks is not taken over."""
    kept = size_of(other)
    trigger = (other.get("scaling") or {}).get("trigger")
    signals = TRIGGERS[trigger].signals if trigger else {}
    if signals and (version.get("runtime") or CUSTOM) not in signals:
        kept |= {key: version.get(key) for key in ("scaling", "scale_to_zero")}
    return {**version, **kept}


def _differences(prefix: str, before: Json, after: Json) -> Iterator[tuple[str, Any, Any]]:
    for key in [*after, *(key for key in before if key not in after)]:
        old, new = before.get(key), after.get(key)
        path = f"{prefix}{key}"
        if isinstance(old, Mapping) and isinstance(new, Mapping) and not _is_free_form(path):
            yield from _differences(f"{path}.", old, new)
        elif _without_empty(old) != _without_empty(new):
            yield path, old, new


def _is_free_form(path: str) -> bool:
    """Whether the keys below are the user's own, which may have dots."""
    return path in {"labels", "extra_resources", "source.files"}


def _without_empty(value: Any) -> Any:
    """The value; an empty list and a mapping of nothing but None count as None."""
    if isinstance(value, Mapping):
        kept = {key: _without_empty(item) for key, item in value.items()}
        kept = {key: item for key, item in kept.items() if item is not None}
        return kept or None
    return None if value == [] else value
