"""Who wrote which field of an object, as its `managedFields` say it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cluster.labels import MANAGER

Raw = Mapping[str, Any]
Path = tuple[str, ...]
"""Where a field stands in an object."""


def field_at(item: Any, path: Path) -> Any:
    """The value there; None where there is none."""
    for name in path:
        item = (item or {}).get(name)
    return item


def edited_by_others(item: Raw) -> bool:
    """Whether another than the portal has written a part of its spec."""
    return any("f:spec" in (entry.get("fieldsV1") or {}) for entry in _of_others(item))


def other_writers(item: Raw, path: Path) -> list[str]:
    """Who else has written this field."""
    fields = tuple(f"f:{name}" for name in path)
    return [
        str(entry.get("manager"))
        for entry in _of_others(item)
        if field_at(entry.get("fieldsV1"), fields) is not None
    ]


def applied_by_portal(item: Raw, path: Path) -> bool:
    """Whether the portal's own apply owns this field."""
    fields = tuple(f"f:{name}" for name in path)
    return any(
        entry.get("manager") == MANAGER
        and entry.get("operation") == "Apply"
        and field_at(entry.get("fieldsV1"), fields) is not None
        for entry in item["metadata"].get("managedFields") or ()
    )


def as_if_applied(item: Raw) -> list[Any] | None:
    """The entries with what the portal created as what it applied; None where it is so already."""
    entries = item["metadata"].get("managedFields") or []
    own = [entry for entry in entries if entry.get("manager") == MANAGER and not entry.get("subresource")]
    created = [entry for entry in own if entry.get("operation") == "Update"]
    if not created:
        return None
    kept = [entry for entry in entries if entry not in created]
    return [*kept, {**created[0], "operation": "Apply"}] if len(own) == len(created) else kept


def _of_others(item: Raw) -> Iterator[Raw]:
    """What others than the portal have written. Scalers and controllers write by a subresource."""
    for entry in item["metadata"].get("managedFields") or ():
        if not entry.get("subresource") and not str(entry.get("manager", "")).startswith(MANAGER):
            yield entry
