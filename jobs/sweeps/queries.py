"""What is asked about sweeps; nothing here writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from costs.queries import Cost, PriceBook, costs_of
from foundation.errors import Conflict, NotFound
from foundation.models import PlatformSettings
from jobs.early_stop import best_of
from jobs.models import Sweep, TrainingRun
from teams.models import Membership, Team, User
from teams.permissions import membership_role, of_visible_teams, role_with
from workloads.models import Workload
from workloads.states import FINAL, IN_CLUSTER, Phase, Reason


def visible_sweeps(user: User) -> QuerySet[Sweep]:
    """The sweeps of the teams that a user sees."""
    return Sweep.objects.filter(of_visible_teams(user)).select_related("team", "owner")


def check_open_sweeps(team: Team) -> None:
    """Conflict where the team has as many open sweeps as a team may have. An open one costs a look every few seconds."""
    most = PlatformSettings.current().open_sweeps
    if most is None:
        return
    there = Sweep.objects.filter(team=team, finished_at=None).count()
    if there >= most:
        message = (
            f"Team {team.slug} has {there} open sweeps, and {most} is the most (open_sweeps). Wait until one has ended, "
            "or cancel one."
        )
        raise Conflict.of_field("matrix", message, code="too_many_sweeps")


def sweep_for(user: User, public_id: UUID) -> Sweep:
    """The sweep with, as `my_role`, the role of the user's membership in its team; or NotFound, which is also what a
    stranger is told.
    """
    rows = visible_sweeps(user).annotate(my_role=membership_role(user, "team"))
    sweep = rows.filter(public_id=public_id).first()
    if sweep is None:
        raise NotFound("There is no such sweep.")
    return sweep


def may_steer(sweep: Sweep, user: User) -> bool:
    """Whether the user may change a sweep that `sweep_for` has found for them; no query."""
    role = role_with(getattr(sweep, "my_role", None), user, sweep.team)
    return role not in (None, Membership.Role.VIEWER)


@dataclass(frozen=True)
class Best:
    """The member whose metric is the best so far."""

    run: TrainingRun
    value: float


@dataclass(frozen=True)
class SweepAnswer:
    """A sweep with what its own row does not hold."""

    sweep: Sweep
    members: Mapping[str, int]
    """How many are in each phase."""
    held_back: int
    """How many of those that are suspended may not run yet."""
    stopped_early: int
    """How many of those that are cancelled a rule of the sweep has stopped."""

    @property
    def phase(self) -> Phase:
        """One word for all: how far it is, and once all have ended what the worst end was.

        That a rule stopped members is how a sweep with rules goes well.
        """
        there = {Phase(phase) for phase in self.members}
        if there & IN_CLUSTER:
            return Phase.RUNNING
        if Phase.QUEUED in there or self.held_back:
            return Phase.QUEUED
        if Phase.SUCCEEDED in there and self.members.get(Phase.CANCELLED.value) == self.stopped_early:
            there.discard(Phase.CANCELLED)
        # A sweep whose runs were forgotten long ago ended as it was asked to.
        worst = (Phase.SUSPENDED, Phase.FAILED, Phase.CANCELLED)
        return next((phase for phase in worst if phase in there), Phase.SUCCEEDED)

    @property
    def ended(self) -> int:
        """How many members have ended, however."""
        return sum(count for phase, count in self.members.items() if Phase(phase) in FINAL)

    @property
    def url(self) -> str:
        """The address of its page."""
        return f"{settings.PUBLIC_URL}{self.sweep.page_url}"

    @property
    def links(self) -> dict[str, str]:
        """Where REST tells more of it."""
        own = f"{settings.PUBLIC_URL}{self.sweep.resource_url}"
        members = f"{settings.PUBLIC_URL}/api/v1/training-runs/?sweep={self.sweep.public_id}"
        return {"self": own, "members": members, "waiting": f"{own}waiting/"}


def answers_of(sweeps: Sequence[Sweep]) -> list[SweepAnswer]:
    """Each with the phases of its members, in one query."""
    held = Q(workload__phase=Phase.SUSPENDED.value, workload__reason=Reason.WAITING_FOR_SWEEP.value)
    early = Q(workload__phase=Phase.CANCELLED.value, workload__reason=Reason.EARLY_STOPPED.value)
    rows = TrainingRun.objects.filter(sweep__in=sweeps).values("sweep", "workload__phase")
    counted = rows.annotate(
        count=Count("pk"), held=Count("pk", filter=held), early=Count("pk", filter=early)
    ).order_by("sweep", "workload__phase")
    members: dict[int, dict[str, int]] = {sweep.pk: {} for sweep in sweeps}
    back, stopped = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
    for row in counted:
        members[row["sweep"]][row["workload__phase"]] = row["count"]
        back[row["sweep"]] += row["held"]
        stopped[row["sweep"]] += row["early"]
    return [SweepAnswer(sweep, members[sweep.pk], back[sweep.pk], stopped[sweep.pk]) for sweep in sweeps]


@dataclass(frozen=True)
class SweepDetail(SweepAnswer):
    """One sweep with its cost and its best member."""

    cost: Cost
    costs: Mapping[int, Cost]
    """Of each member, by its workload's key."""
    runs: Sequence[TrainingRun]
    """Its members by their numbers, with their workloads."""

    @property
    def waiting(self) -> list[Workload]:
        """The members that wait, in the order in which they were queued."""
        queued = [run.workload for run in self.runs if run.workload.phase == Phase.QUEUED.value]
        return sorted(queued, key=lambda workload: (workload.queued_at, workload.pk))

    @cached_property
    def best(self) -> Best | None:
        """None without a metric, or before any member reported it."""
        rules = self.sweep.early_stop
        known = [(run, value) for run in self.runs if (value := best_of(run.milestones)) is not None]
        if rules is None or not known:
            return None
        run, value = known[0]
        for other, candidate in known[1:]:
            if rules.better(candidate, value) != value:
                run, value = other, candidate
        return Best(run, value)


def detail_of(sweep: Sweep, *, now: datetime, price_book: PriceBook | None = None) -> SweepDetail:
    """The sweep with all that is told of it, in three queries; in two for who has `spans_by_card` already."""
    runs = list(
        sweep.members.select_related("workload__flavor", "workload__team").defer("spec").order_by("number")
    )
    workloads = [run.workload for run in runs]
    costs = costs_of(workloads, now=now, price_book=price_book)
    stopped = (Phase.CANCELLED.value, Reason.EARLY_STOPPED.value)
    return SweepDetail(
        sweep,
        dict(Counter(sorted(workload.phase for workload in workloads))),
        sum(_is_held(workload) for workload in workloads),
        sum((workload.phase, workload.reason) == stopped for workload in workloads),
        cost=_total(workloads, costs),
        costs=costs,
        runs=runs,
    )


def _total(workloads: Sequence[Workload], costs: Mapping[int, Cost]) -> Cost:
    """What all cost together: at most, too, of which those that have ended cost no more than they did.

    An amount that one of them does not know is unknown, with its reason.
    """
    ended = {workload.pk for workload in workloads if workload.is_final}
    live = [costs[workload.pk] for workload in workloads if workload.pk not in ended]
    past = [costs[key] for key in ended]
    may_run = [costs[workload.pk] for workload in workloads if not (workload.is_final or _is_held(workload))]
    return Cost(
        so_far=_sum([cost.so_far for cost in (*live, *past)]),
        rate_per_hour=_sum([cost.rate_per_hour for cost in may_run]),
        at_time_limit=_sum([*(cost.at_time_limit for cost in live), *(cost.so_far for cost in past)]),
        current_rate_per_hour=_sum([cost.current_rate_per_hour for cost in live]),
        reason=next((cost.reason for cost in costs.values() if cost.reason), ""),
    )


def _is_held(workload: Workload) -> bool:
    return (workload.phase, workload.reason) == (Phase.SUSPENDED.value, Reason.WAITING_FOR_SWEEP.value)


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
