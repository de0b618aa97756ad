"""What stands under each tab of a run or an endpoint. Every function answers the template's facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import yaml
from django.http import HttpRequest

from console.api.workloads import Make, manifests_of
from console.pages.ansi import ansi_to_html
from console.pages.reading import PageReading
from controller.logs.cursor import LogCursor
from controller.logs.workload_logs import LEVELS, NO_ATTEMPT, LineFilter, count_lines, read_lines
from costs.queries import cost_lines
from foundation.http.query import refuse
from foundation.models import PlatformSettings
from workloads.models import Workload

LOG_TAIL_LINES: Final = 500
LOG_FOLLOW_LINES_MAX: Final = 2_000
EVENTS_MAX: Final = 300
PODS_MAX: Final = 300


Panel = Callable[[PageReading[Any]], dict[str, Any]]


def logs(asked: PageReading[Any]) -> dict[str, Any]:
    """The last lines of one attempt, or what came after `cursor`. Raises Malformed, NotFound as `read_lines`.

    Who reads the newest attempt goes on with the one after it: `log_moves` says that the panel is of that one now. Who
    chose an older one stays with it.
    """
    newest = asked.workload.attempt_number
    attempt = _number(asked.request, "attempt")
    pod = asked.request.GET.get("pod") or None
    cursor = asked.request.GET.get("cursor") or None
    given = asked.request.GET
    wanted = LineFilter.of(search=given.get("search") or None, level=given.get("level") or None)
    page = read_lines(
        asked.workload,
        attempt=attempt,
        pod=pod,
        cursor=cursor,
        tail=None if cursor else LOG_TAIL_LINES,
        limit=LOG_FOLLOW_LINES_MAX,
        wanted=wanted,
        attempts=asked.attempts,
    )
    began = LogCursor.decode(cursor).attempt if cursor and attempt is None else newest
    # Before an attempt there was nothing to read to its end, nor anything to choose from above the lines.
    moves = began < newest and (began == NO_ATTEMPT or not page.more)
    if moves:
        pod = None
        page = read_lines(asked.workload, tail=LOG_TAIL_LINES, wanted=wanted, attempts=asked.attempts)
    chosen = page.attempt if page.attempt < newest else None
    return {
        "log": page,
        "log_lines": [
            {
                "at": line.at,
                "pod": line.pod,
                "html": ansi_to_html(line.text),
                "continued": line.continued,
                "number": line.number,
            }
            for line in page.lines
        ],
        "log_wanted": wanted,
        "log_levels": LEVELS,
        "log_matches": _matches(asked.workload, wanted, attempt=page.attempt, pod=pod)
        if not cursor
        else None,
        "log_query": urlencode({"search": wanted.text, "level": wanted.level}) if wanted else "",
        "log_attempts": list(range(1, newest + 1)),
        "log_pods": page.pod_names[:PODS_MAX],
        "log_pod": pod or "",
        "log_attempt": chosen or "",
        "log_moves": moves,
        "log_begun": bool(page.lines) or page.has_started,
        "log_follows": page.more or not page.complete,
        "log_waits": page.complete and chosen is None and not asked.workload.is_final,
        "log_tail": LOG_TAIL_LINES,
        "retention_days": None if page.expires_at else PlatformSettings.current().log_retention_days,
    }


def _matches(
    workload: Workload, wanted: LineFilter, *, attempt: int, pod: str | None
) -> dict[str, Any] | None:
    if not wanted:
        return None
    count, complete = count_lines(workload, wanted, attempt=attempt, pod=pod, since=None)
    return {"count": count, "complete": complete}


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


def _number(request: HttpRequest, name: str) -> int | None:
    raw = request.GET.get(name) or None
    if raw is None:
        return None
    if not raw.isascii() or not raw.isdigit() or len(raw) > 9:
        raise refuse(name, "must be a whole number.")
    return int(raw)
