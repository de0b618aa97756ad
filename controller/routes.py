"""Routes to served workloads. An app whose workloads answer requests registers how each is reached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.conf import settings

from workloads.models import Workload
from workloads.podspec.specs import RateLimit
from workloads.states import Phase, Reason

# Scaled to zero on purpose; and scaling up because of a request.
ASLEEP: Final = frozenset({Reason.SCALED_TO_ZERO.value, Reason.WAKING.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The Service of a workload, and its state.

    `port` is the Service's port number (or its name, outside the cluster), `timeout_seconds` what one request may
    take in all. `phase` and `reason` are the workload's own. `wakes` says that a request brings it back from zero
    replicas, `revision` which of its revisions answers (0 where there are none), `rate` how often it may be called.
    """

    public_id: UUID
    namespace: str
    service: str
    port: int | str
    timeout_seconds: float
    phase: str
    reason: str
    wakes: bool = False
    revision: int = 0
    rate: RateLimit | None = None

    @property
    def is_live(self) -> bool:
        return self.phase == Phase.RUNNING and self.reason not in ASLEEP

    @property
    def is_waking(self) -> bool:
        """Whether the workload has no replica now and a request brings one back."""
        return self.wakes and self.phase == Phase.RUNNING and self.reason in ASLEEP


RouteSource = Callable[[Sequence[Workload]], Mapping[int, Route]]

_sources: dict[str, RouteSource] = {}


def register_route_source(kind: str, source: RouteSource) -> None:
    """Register the route source of a kind; called from the `ready` of the app that owns the kind.

    `source` reads rows only, never the cluster, and as many queries for many workloads as for one. It answers by the
    workloads' keys, without those that can have no address, such as before the first attempt: callers are
    then told the workload's phase and reason.
    """
    if _sources.get(kind, source) is not source:
        raise ValueError(f"Two sources want the routes of the kind {kind}.")
    _sources[kind] = source


def is_served(kind: str) -> bool:
    """Whether workloads of the kind answer requests."""
    return kind in _sources


def gateway_url(workload: Workload) -> str:
    """The gateway's URL of a workload whose team is loaded, with a trailing slash."""
    return f"{settings.LIVE_URL}/{workload.team.slug}/{workload.name}/"


def routes_for(names: Collection[tuple[str, str]]) -> dict[tuple[str, str], Route | None]:
    """Routes by (team's slug, name) to live workloads; None if there is no such workload."""
    rows = (
        Workload.objects.select_related("team")
        .filter(kind__in=_sources, team__slug__in={team for team, _ in names}, name__in={n for _, n in names})
        .exclude(phase__in=Workload.FINAL_PHASES)
        .order_by("-kind")
    )
    known = {(workload.team.slug, workload.name): workload for workload in rows}
    asked = {key: known[key] for key in names if key in known}
    of_kind: defaultdict[str, list[Workload]] = defaultdict(list)
    for workload in asked.values():
        of_kind[workload.kind].append(workload)
    routes: dict[int, Route] = {}
    for kind, workloads in of_kind.items():
        routes |= _sources[kind](workloads)
    return {
        key: routes.get(asked[key].pk) or _without_address(asked[key]) if key in asked else None
        for key in names
    }


def route_of(workload: Workload) -> Route | None:
    """The route to a workload whose team is loaded; None if its kind answers no requests, or it has ended."""
    source = _sources.get(workload.kind)
    if source is None or workload.is_final:
        return None
    return source([workload]).get(workload.pk) or _without_address(workload)


def _without_address(workload: Workload) -> Route:
    return Route(
        public_id=workload.public_id,
        namespace=workload.team.namespace_name,
        service="",
        port=0,
        timeout_seconds=0.0,
        # A workload without an address is not live, whatever its row says.
        phase=Phase.STARTING if workload.phase == Phase.RUNNING else workload.phase,
        reason=workload.reason,
    )
