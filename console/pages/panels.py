"""What stands under each tab of a run or an endpoint. Every function answers the template's facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import yaml

from console.api.workloads import Make, manifests_of
from console.pages.log_panel import PODS_MAX, logs
from console.pages.reading import PageReading
from costs.queries import cost_lines

EVENTS_MAX: Final = 300


Panel = Callable[[PageReading[Any]], dict[str, Any]]


def events(asked: PageReading[Any]) -> dict[str, Any]:
    """The newest moves of the phase and changes of its reason."""
    return {"events": list(asked.workload.events.order_by("-id")[:EVENTS_MAX])}


def pods(asked: PageReading[Any]) -> dict[str, Any]:
    """Every pod there was, newest first."""
    return {"pods": list(asked.workload.pods.order_by("-created_at", "-id")[:PODS_MAX])}


def cost(asked: PageReading[Any]) -> dict[str, Any]:
    """A line a pod, and the totals."""
    detail = cost_lines(asked.workload, now=asked.now, price_book=asked.price_book)
    return {
        "cost_lines": detail.lines,
        "cost_lines_complete": detail.complete,
        "cost_total": asked.cost,
    }


def manifests(asked: PageReading[Any], *, make: Make | None = None) -> dict[str, Any]:
    """The objects of the current attempt, as YAML, or as JSON where `format=json` asks for it."""
    objects = manifests_of(asked.workload, watches=asked.watches, make=make)
    wants_json = asked.request.GET.get("format") == "json"
    return {
        "manifests": [
            {
                "title": f"{item['kind']} {item['metadata']['name']}",
                "text": None if wants_json else _yaml(item),
                "value": item,
            }
            for item in objects
        ],
        "manifest_format": "json" if wants_json else "yaml",
    }


def no_facts(_asked: PageReading[Any]) -> dict[str, Any]:
    """The facts of a tab that shows only what every page has anyway."""
    return {}


SHARED_PANELS: Mapping[str, Panel] = {
    "logs": logs,
    "events": events,
    "pods": pods,
    "cost": cost,
    "manifests": manifests,
    "spec": no_facts,
}


_registered: dict[tuple[str, str], Panel] = {}


def register_panel(kind: str, tab: str, panel: Panel) -> None:
    """What stands under a tab of a kind, from an app above it; called from the `ready` of that app."""
    if _registered.get((kind, tab), panel) is not panel:
        raise ValueError(f"Two panels want the tab {tab} of the kind {kind}.")
    _registered[kind, tab] = panel


def panel_of(kind: str, tab: str) -> Panel:
    """The registered panel; one without facts where there is none."""
    return _registered.get((kind, tab), no_facts)


def _yaml(value: Mapping[str, Any]) -> str:
    return yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=True, width=110)


def _plain(value: Any) -> Any:
    """The same with plain dicts and lists, the only ones that the safe dumper takes."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
