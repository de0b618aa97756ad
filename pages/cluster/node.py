"""The page of one node: what it offers and who has it, what is wrong with it, and what it was before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import View

from cluster.names import DEFAULT_CLUSTER
from console.pages.queries import teams_of
from foundation import clock
from foundation.errors import NotFound
from foundation.http.query import check_query_parameters
from pages.cluster.cells import Held, cells_of, told
from pages.cluster.facts import cluster_facts
from teams.permissions import has_global_role
from workloads.models import ForeignPod, NodeInterval, NodeRecord, PodRecord
from workloads.podrequests import OTHERS, others_left, told_of

PODS_MAX: Final = 100
HISTORY_MAX: Final = 50
NAMES: Final = ("CPU cores", "Memory", "Ephemeral storage", "Pods")
"""Of OTHERS, as people say them."""


@dataclass(frozen=True)
class Beside:
    """What the node has of something that is no GPU, in words; `left` of that nobody has asked for."""

    name: str
    whole: str
    left: str


class NodePage(LoginRequiredMixin, View):
    """GET. Pods of teams that the person may not see are counted, not named; those that are not the portal's are named to
    those who run the platform.
    """

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        check_query_parameters(request, ())
        record = NodeRecord.objects.of(DEFAULT_CLUSTER).filter(name=name).order_by("-created_at").first()
        if record is None:
            raise NotFound("There is no such node.")
        there = record.gone_at is None
        context = {
            "record": record,
            "now": clock.now(),
            "history": NodeInterval.objects.of(DEFAULT_CLUSTER)
            .filter(node_uid=record.uid)
            .order_by("-started_at", "-id")[:HISTORY_MAX],
            **(_now(request, record) if there else {}),
        }
        return render(request, "portal/cluster_node.html", context)


def _now(request: HttpRequest, record: NodeRecord) -> dict[str, Any]:
    mine = [team.pk for team in teams_of(request) if getattr(team, "my_role", None)]
    facts = cluster_facts(mine)
    seen = facts.observed
    rows = cells_of(
        [node for node in seen.nodes if node.name == record.name],
        seen.flavors,
        Held(seen.used, facts.mine, seen.foreign),
        capacity=facts.capacity,
        conditions=facts.conditions,
    )
    (row,) = rows or (None,)
    return {
        "row": row,
        "legend": told(row.counts) if row else [],
        "beside": _beside(record, [seen.taken.get((record.name, foreign), ()) for foreign in (False, True)]),
        "seen": seen.seen,
        **_pods(request, record.name),
    }


def _beside(record: NodeRecord, taken: Sequence[Sequence[int]]) -> list[Beside]:
    """What it has besides GPUs, as far as it says; nodes without GPUs are not counted out."""
    whole = record.offers
    left = others_left(others_left(whole, taken[0]), taken[1])
    return [
        Beside(said, told_of(name, have), told_of(name, max(0, rest)))
        for name, said, have, rest in zip(OTHERS, NAMES, whole, left, strict=False)
        if have is not None and rest is not None
    ]


def _pods(request: HttpRequest, node: str) -> dict[str, Any]:
    """The pods of the portal there that the person may know of, the others in numbers, and what is not the portal's."""
    there = PodRecord.objects.of(DEFAULT_CLUSTER).filter(
        node_name=node, gone_at__isnull=True, finished_at__isnull=True
    )
    teams = None if has_global_role(request.user) else [team.pk for team in teams_of(request)]
    shown = there if teams is None else there.filter(workload__team__in=teams)
    pods = shown.select_related("workload__team", "workload__owner", "workload__flavor")
    totals = there.aggregate(count=Count("pk"), units=Sum("units"))
    known = list(pods.order_by("-units", "created_at", "id")[: PODS_MAX + 1])
    foreign = ForeignPod.objects.of(DEFAULT_CLUSTER).filter(node_name=node).order_by("namespace", "name")
    strangers = list(foreign[: PODS_MAX + 1])
    of_known = shown.aggregate(count=Count("pk"), units=Sum("units")) if teams is not None else totals
    return {
        "pods": known[:PODS_MAX],
        "more_pods": len(known) > PODS_MAX,
        "hidden": totals["count"] - of_known["count"],
        "hidden_units": (totals["units"] or 0) - (of_known["units"] or 0),
        "foreign": strangers[:PODS_MAX] if teams is None else [],
        "foreign_count": f"{PODS_MAX}+" if len(strangers) > PODS_MAX else len(strangers),
        "foreign_units": sum(int(units) for pod in strangers for units in pod.requests.values()),
        "names_all": teams is None,
    }
