"""Pages of sweeps: all of them, one with its members and its card, and the buttons of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View
from typing_extensions import override

from console.pages.card import CardLook, Page, look_at
from console.pages.detail import CommandInput, PageCommand, command_facts, see_other
from console.pages.forms import whole
from console.pages.lists import PageOfRows, WorkloadRow, rows_with
from console.pages.queries import submit_teams, teams_of
from costs.queries import spans_by_card
from foundation import clock
from foundation.errors import Invalid, NotAllowed, NotFound, PortalError
from foundation.http.problems import flatten
from jobs.early_stop import best_of
from jobs.matrix import text_of
from jobs.models import Sweep, TrainingRun
from jobs.sweeps import queries
from jobs.sweeps.card import SweepCard, card_of_sweep
from jobs.sweeps.queries import SweepDetail
from jobs.sweeps.serializers import SweepPatchSerializer
from jobs.sweeps.services import cancel_sweep, change_sweep
from teams.actors import Actor, actor_of
from teams.models import User
from teams.permissions import check_can_submit
from workloads.states import FINAL, Phase

MEMBERS_SHOWN = 100
"""Members in one page of the table; a sweep has up to a thousand."""


class SweepListPage(LoginRequiredMixin, View):
    """All sweeps that the person may see, newest first."""

    ordering = "-created_at"

    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        team = next((team for team in teams_of(request) if team.slug == slug), None)
        if slug and team is None:
            raise NotFound("There is no such team, or you are not a member of it.")
        sweeps = queries.visible_sweeps(cast("User", request.user))
        pager = PageOfRows()
        page = pager.paginate_queryset(sweeps.filter(team=team) if team else sweeps, request, self)
        context = {
            "rows": queries.answers_of(page),
            "older": pager.next_link(),
            "newer": pager.previous_link(),
            "team": team,
            "may_submit": bool(submit_teams(request)),
        }
        return render(request, "jobs/sweep_list.html", context)


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One line of the table of members."""

    run: TrainingRun
    row: WorkloadRow
    parameters: list[tuple[str, str]]
    metric: float | None


class OfSweep(LoginRequiredMixin, View):
    """Something about one sweep."""

    def find(self, request: HttpRequest, public_id: UUID) -> Sweep:
        """The sweep, or NotFound, which is also the answer to a stranger."""
        return queries.sweep_for(cast("User", request.user), public_id)


class SweepPage(OfSweep):
    """One sweep: how far it is, why it waits and when it starts, what it costs, and its members."""

    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        now = clock.now()
        sweep = self.find(request, public_id)
        user = cast("User", request.user)
        price_book = spans_by_card()
        detail = queries.detail_of(sweep, now=now, price_book=price_book)
        may = queries.may_steer(sweep, user)
        waits = {phase for phase in detail.members if Phase(phase) is Phase.QUEUED}
        card = card_of_sweep(detail, reader=user, now=now, price_book=price_book) if waits else None
        rules = sweep.early_stop
        context = {
            "sweep": sweep,
            "detail": detail,
            "may_steer": may,
            "rules": rules,
            **command_facts(_commands(sweep, detail) if may else []),
            "waiting": _look(sweep, card) if card else None,
            "figures": card.figures if card else None,
            "asks_again": _asks_again(detail),
            "page_url": sweep.page_url,
            "parameters": list(sweep.matrix["parameters"]),
            "workload": sweep,
        } | _page_of_members(request, detail)
        fragment = "#live" if request.headers.get("HX-Target") == "live" else ""
        return render(request, f"jobs/sweep_detail.html{fragment}", context)


def _asks_again(detail: SweepDetail) -> str:
    if all(Phase(phase) in FINAL for phase in detail.members):
        return ""
    return "every 10s, live:workload from:body throttle:2s, live:poll from:body"


def _look(sweep: Sweep, card: SweepCard) -> CardLook:
    quota = reverse("portal:team-quota", args=[sweep.team.slug])
    return look_at(card.card, page=Page(noun="sweep", current={}, quota=quota), submitted=True)


def _page_of_members(request: HttpRequest, detail: SweepDetail) -> dict[str, Any]:
    """The lines of one page of members, by their numbers."""
    wanted = whole(request.GET.get("from", "") or "1")
    last = max(1, (len(detail.runs) - 1) // MEMBERS_SHOWN * MEMBERS_SHOWN + 1)
    start = min(max(1, wanted), last) if isinstance(wanted, int) else 1
    runs = detail.runs[start - 1 : start - 1 + MEMBERS_SHOWN]
    rows = rows_with([run.workload for run in runs], detail.costs, now=clock.now())
    base = detail.sweep.page_url
    return {
        "members": [
            MemberRow(
                run=run,
                row=row,
                parameters=[(name, text_of(value)) for name, value in run.parameters.items()],
                metric=best_of(run.milestones),
            )
            for run, row in zip(runs, rows, strict=True)
        ],
        "previous": f"{base}?from={max(1, start - MEMBERS_SHOWN)}" if start > 1 else "",
        "next": f"{base}?from={start + MEMBERS_SHOWN}" if start + MEMBERS_SHOWN <= len(detail.runs) else "",
        "first_shown": start,
        "last_shown": start + len(runs) - 1,
    }


def _commands(sweep: Sweep, detail: SweepDetail) -> list[PageCommand]:
    refused = "It has ended." if sweep.finished_at else "It is being cancelled." if sweep.cancelled_at else ""
    live = sweep.size - detail.ended
    return [
        PageCommand(
            name="parallel",
            label="At most at once",
            icon="pause",
            url=reverse("jobs:sweep-parallel", args=[sweep.public_id]),
            effect="How many members wait for GPUs or have them at once; empty for all. Those that run go on.",
            inputs=(
                CommandInput(
                    "max_parallel", "At most at once", str(sweep.max_parallel or ""), required=False
                ),
            ),
            refused=refused,
        ),
        PageCommand(
            name="cancel",
            label="Cancel",
            icon="ban",
            url=reverse("jobs:sweep-cancel", args=[sweep.public_id]),
            effect=f"Cancels the {live} members that have not ended. Work since their last checkpoints is lost.",
            refused=refused,
            danger=True,
        ),
    ]


class SweepCommandPage(OfSweep):
    """POST asks for something, and leads back to the sweep with a message."""

    done: str

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        sweep = self.find(request, public_id)
        check_can_submit(request.user, sweep.team)
        try:
            self.carry_out(request, sweep, actor_of(request))
            messages.success(request, self.done.format(name=sweep.name))
        except NotAllowed:
            raise
        except PortalError as error:
            messages.error(request, error.message)
        return see_other(sweep.page_url)

    def carry_out(self, request: HttpRequest, sweep: Sweep, actor: Actor) -> None:
        """Do it."""
        raise NotImplementedError


class SweepCancelPage(SweepCommandPage):
    """Cancel every member that has not ended."""

    done = "The sweep {name} is being cancelled."

    @override
    def carry_out(self, request: HttpRequest, sweep: Sweep, actor: Actor) -> None:
        cancel_sweep(sweep=sweep, actor=actor, now=clock.now())


class SweepParallelPage(SweepCommandPage):
    """Another number at once, as `max_parallel`; empty for all."""

    done = "The sweep {name} has another number at once."

    @override
    def carry_out(self, request: HttpRequest, sweep: Sweep, actor: Actor) -> None:
        change = SweepPatchSerializer(data={"max_parallel": whole(request.POST.get("max_parallel", ""))})
        if not change.is_valid():
            problem = next(flatten(change.errors))
            raise Invalid.of_field("max_parallel", f"Not changed: {problem.message}", code="invalid")
        change_sweep(
            sweep=sweep, max_parallel=change.validated_data["max_parallel"], actor=actor, now=clock.now()
        )
