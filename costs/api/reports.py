"""REST: `costs/`, what they were spent on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from costs.api.serializers import CostGroupSerializer, CostSummarySerializer, IdleSerializer
from costs.models import CostRollup
from costs.reports.comparisons import spot_savings, use_of_capacity
from costs.reports.groups import GROUPS, ORDERINGS, CostFilters
from costs.reports.queries import spent
from costs.reports.windows import CostWindow
from foundation import clock
from foundation.digits import whole_number
from foundation.errors import NotFound
from foundation.http.filters import asked_moment, several
from foundation.http.query import check_query_parameters, one, refuse
from teams.api.base import PortalView
from teams.models import User
from teams.permissions import check_global_role, searched_teams, visible_teams
from workloads.models import CapacityType

LIMIT, LIMIT_MAX = 50, 200
ASKED = ("team", "user", "project", "flavor", "capacity", "from", "to")


def _text(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, str, description=description)


PARAMETERS = [
    _text("team", "Slug; several are separated by commas. All that the caller may know of, unless given."),
    _text("user", "Username of the owner; several are separated by commas."),
    _text("project", "The label `project` that the workload had; several are separated by commas."),
    _text("flavor", "Name; several are separated by commas."),
    OpenApiParameter("capacity", str, enum=CapacityType.values),
    _text("from", "RFC 3339. The begin of this month (UTC), unless `from` or `to` is given."),
    _text("to", "RFC 3339, not included. The end of this month, unless `from` or `to` is given."),
]  # fmt: skip
GROUP_PARAMETERS = [
    OpenApiParameter("group_by", str, enum=list(GROUPS), description="`team` unless given."),
    OpenApiParameter("limit", int, description=f"Groups that are told, {LIMIT} unless given, at most {LIMIT_MAX}."),
    OpenApiParameter("ordering", str, enum=list(ORDERINGS), description="`-amount` unless given; of days and months `key`. Workloads come by amount alone."),
]  # fmt: skip


@dataclass(frozen=True)
class AskedCosts:
    """What a request wants counted. `teams` None is all there are."""

    teams: Collection[int] | None
    window: CostWindow
    filters: CostFilters


def asked_for(request: Any, *, also: Collection[str] = ()) -> AskedCosts:
    """The parameters of `ASKED`, checked, and no others besides `also`. Raises Malformed; NotFound of an unknown team or user."""
    check_query_parameters(request, (*ASKED, *also))
    return AskedCosts(_teams(request), _window(request), _filters(request))


def _teams(request: Any) -> Collection[int] | None:
    slugs = _several(request, "team") or []
    if slugs:
        known = set(visible_teams(request.user).filter(slug__in=slugs).values_list("slug", flat=True))
        if unknown := [slug for slug in slugs if slug not in known]:
            message = f"There is no team {unknown[0]}, or you are not a member of it."
            raise NotFound.of_field("team", message)
    return searched_teams(request.user, slugs=slugs)


def _window(request: Any) -> CostWindow:
    start, end = asked_moment(request, "from"), asked_moment(request, "to")
    if start is None and end is None:
        return CostWindow.month_of(clock.now())
    if start is not None and end is not None and start > end:
        raise refuse("to", "must not be before `from`.", code="ends_before_it_begins")
    return CostWindow(start, end)


def _filters(request: Any) -> CostFilters:
    capacities = _several(request, "capacity")
    if capacities is not None and (wrong := set(capacities) - set(CapacityType.values)):
        raise refuse("capacity", f"{min(wrong)} is not one of {', '.join(CapacityType.values)}.")
    users = _several(request, "user")
    keys = None
    if users is not None:
        found = dict(User.objects.filter(username__in=users).values_list("username", "pk"))
        # Who is in none of the caller's teams has spent nothing in them: the answer tells nobody who there is.
        keys = list(found.values())
    return CostFilters(
        users=keys,
        projects=_several(request, "project"),
        flavors=_several(request, "flavor"),
        capacities=capacities,
    )


def _several(request: Any, name: str) -> list[str] | None:
    if name not in request.GET:
        return None
    try:
        return several(request, name)
    except ValueError as error:
        raise refuse(name, str(error)) from error


class CostSummaryView(PortalView):
    """What the caller's teams spent, summed: what still runs is counted to this second."""

    queryset = CostRollup.objects.none()
    serializer_class = CostGroupSerializer
    filter_backends = []
    pagination_class = None  # type: ignore[assignment] # not a list of pages

    @extend_schema(
        operation_id="costs_summary",
        tags=["costs"],
        parameters=PARAMETERS + GROUP_PARAMETERS,
        responses=CostSummarySerializer,
    )
    def get(self, request: Any) -> Response:
        asked = asked_for(request, also=("group_by", "limit", "ordering"))
        group_by = one(request, "group_by") or "team"
        if group_by not in GROUPS:
            raise refuse("group_by", f"must be one of {', '.join(GROUPS)}.")
        report = spent(
            teams=asked.teams,
            window=asked.window,
            group_by=group_by,
            now=clock.now(),
            limit=_limit(request),
            ordering=_ordering(request, group_by),
            filters=asked.filters,
        )
        return Response(CostSummarySerializer(report).data)


class CostIdleView(PortalView):
    """What each card's capacity was worth: charged to teams, idle, stranded, lost; and what spot saved. Posted money alone."""

    queryset = CostRollup.objects.none()
    serializer_class = IdleSerializer
    filter_backends = []
    pagination_class = None  # type: ignore[assignment] # not a list of pages

    @extend_schema(
        operation_id="costs_idle",
        tags=["costs"],
        parameters=[each for each in PARAMETERS if each.name in {"from", "to"}],
        responses=IdleSerializer,
    )
    def get(self, request: Any) -> Response:
        check_global_role(request.user)
        check_query_parameters(request, ("from", "to"))
        window = _window(request)
        savings = spot_savings(teams=None, window=window)
        return Response(
            IdleSerializer({"lanes": use_of_capacity(window), "savings": savings, "window": window}).data
        )


def _limit(request: Any) -> int:
    raw = one(request, "limit")
    if raw is None:
        return LIMIT
    limit = whole_number(raw, digits=3)
    if limit is None or not 1 <= limit <= LIMIT_MAX:
        raise refuse("limit", f"must be a whole number from 1 to {LIMIT_MAX}.")
    return limit


def _ordering(request: Any, group_by: str) -> str:
    ordering = one(request, "ordering") or ""
    allowed = [each for each in ORDERINGS if group_by != "workload" or each.endswith("amount")]
    if ordering and ordering not in allowed:
        raise refuse("ordering", f"must be one of {', '.join(allowed)}.")
    return ordering
