"""The page Cluster: a map of what is in it, the same in tables, and where so many pods would fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views import View

from console.api.capacity import FlavorCapacity, capacity
from console.pages.queries import teams_of
from foundation import clock
from foundation.http.query import check_query_parameters, one, refuse
from pages.cluster.cells import Held, NodeCells, NodePool, cells_of, pools_of, together, told
from pages.cluster.facts import MapFacts, cluster_facts
from pages.cluster.fit_form import FitAnswer, FitForm, answer_of
from pages.cluster.placing import Placing, place_in_pool
from workloads.models import ResourceFlavor
from workloads.nodes.capacity import Observed

ASKED: Final = ("view", "flavor", "capacity", "gpus", "pods", "pool", "page")
VIEWS: Final = ("map", "table")
ON_A_PAGE: Final = 96
IN_A_POOL: Final = 8
"""Nodes of one pool that the map shows at least; all of them stand on the pool's own pages."""
PAGE_MAX: Final = 10_000


@dataclass(frozen=True)
class FlavorLine:
    """A flavor and capacity type, and what waits for it."""

    row: FlavorCapacity
    runs: int
    units: int

    @property
    def scattered(self) -> int | None:
        """Percent of what is free that lies outside the largest block."""
        part = self.row.fragmentation
        return None if part is None else round(part * 100)


@dataclass(frozen=True)
class Shown:
    """A pool with those of its nodes that this page shows."""

    pool: NodePool
    nodes: Sequence[NodeCells]
    left_out: int


class ClusterPage(LoginRequiredMixin, View):
    """GET: the map, and with `view=table` the same in tables."""

    def get(self, request: HttpRequest) -> HttpResponse:
        check_query_parameters(request, ASKED)
        view = one(request, "view") or VIEWS[0]
        if view not in VIEWS:
            raise refuse("view", f"must be one of {', '.join(VIEWS)}.")
        context = read_map(request, now=clock.now())
        return render(request, "portal/cluster.html", {"view": view, **context})


class CapacityPage(LoginRequiredMixin, View):
    """Where the tables were before the map."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return redirect(f"{reverse('portal:cluster')}?view=table", permanent=True)


def read_map(request: HttpRequest, *, now: datetime) -> dict[str, Any]:
    """Everything that the page shows. Raises Malformed for a pool's page that is none."""
    flavors = list(ResourceFlavor.objects.filter(enabled=True))
    wanted = any(request.GET.get(name) for name in FitForm.base_fields)
    form = FitForm(request.GET if wanted else None, flavors=flavors)
    placing, observed = _placing(form, now)
    mine = [team.pk for team in teams_of(request) if getattr(team, "my_role", None)]
    facts = cluster_facts(mine, observed=observed)
    lines = _lines(facts, flavors, form)
    rows = _cells(facts, form, placing)
    pools = pools_of(rows)
    shown, pager = _page_of(request, pools)
    return {
        "form": form,
        "answer": _answer(form, placing, lines),
        "lines": lines,
        "pools": shown,
        "nodes": [node for each in shown for node in each.nodes],
        "legend": told(together(pool.counts for pool in pools)),
        "node_count": len(rows),
        "seen": facts.observed.seen,
        **pager,
    }


def _placing(form: FitForm, now: datetime) -> tuple[Placing | None, Observed | None]:
    flavor, gpus = form.flavor_asked, form.value.get("gpus")
    if flavor is None or not gpus:
        return None, None
    return place_in_pool(
        flavor=flavor,
        capacity_type=form.capacity_asked(flavor),
        units_each=gpus,
        pods=form.value.get("pods") or 1,
        now=now,
    )


def _lines(facts: MapFacts, flavors: Sequence[ResourceFlavor], form: FitForm) -> list[FlavorLine]:
    name, kind = form.value.get("flavor"), form.value.get("capacity")
    return [
        FlavorLine(row, *facts.waiting.get((row.flavor, row.capacity), (0, 0)))
        for row in capacity(facts.observed, flavors=flavors)
        if name in (None, "", row.flavor) and kind in (None, "", row.capacity)
    ]


def _cells(facts: MapFacts, form: FitForm, placing: Placing | None) -> list[NodeCells]:
    seen = facts.observed
    flavor = form.flavor_asked
    rows = cells_of(
        seen.nodes,
        seen.flavors,
        Held(seen.used, facts.mine, seen.foreign),
        capacity=facts.capacity,
        conditions=facts.conditions,
        fits=("", {}) if placing is None or flavor is None else (flavor.resource, placing.units),
    )
    name, kind = form.value.get("flavor"), form.value.get("capacity")
    return [row for row in rows if row.offers(name or "", kind or "")] if name or kind else rows


def _answer(form: FitForm, placing: Placing | None, lines: Sequence[FlavorLine]) -> FitAnswer | None:
    flavor = form.flavor_asked
    if placing is None or flavor is None:
        return None
    kind = form.capacity_asked(flavor)
    row = next((line.row for line in lines if line.row.capacity == kind), None)
    return answer_of(
        placing,
        flavor=flavor.name,
        capacity=kind,
        free=row.free if row else 0,
        largest_free=row.largest_free_block if row else 0,
    )


def _page_of(request: HttpRequest, pools: Sequence[NodePool]) -> tuple[list[Shown], dict[str, Any]]:
    """The first nodes of every pool, or a page of the one that is asked for."""
    name = one(request, "pool") or ""
    if not name:
        each = max(IN_A_POOL, ON_A_PAGE // max(1, len(pools)))
        return [_shown(pool, pool.nodes[:each]) for pool in pools], {"pool": ""}
    pool = next((pool for pool in pools if pool.name == name), None)
    if pool is None:
        raise refuse("pool", "names no pool of the cluster.")
    text = one(request, "page") or "1"
    page = int(text) if text.isdecimal() and len(text) < 6 else 0
    if not 1 <= page <= PAGE_MAX:
        raise refuse("page", "must be the number of a page.")
    first = (page - 1) * ON_A_PAGE
    nodes = pool.nodes[first : first + ON_A_PAGE]
    more = first + ON_A_PAGE < len(pool.nodes)
    pager = {
        "pool": name,
        "page": page,
        "first": first + 1,
        "last": first + len(nodes),
        "links": {
            "before": _at(request, page - 1) if page > 1 else "",
            "after": _at(request, page + 1) if more else "",
        },
    }
    return [Shown(pool, nodes, 0)], pager


def _at(request: HttpRequest, page: int) -> str:
    asked = request.GET.copy()
    asked["page"] = str(page)
    return f"?{asked.urlencode()}"


def _shown(pool: NodePool, nodes: Sequence[NodeCells]) -> Shown:
    return Shown(pool, nodes, len(pool.nodes) - len(nodes))
