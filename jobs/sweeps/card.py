"""The card of a sweep as of one request: that of the member that starts next, with the cost and the last start of all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from console.api.representations import card_without_queue, waiting_card
from controller import services
from controller.waiting_card import Card, CardRequest
from costs.queries import PriceBook, cost_for, quotes_for, rate_now, spans_by_card
from foundation.errors import NotFound
from jobs.adapter import KIND
from jobs.matrix import Matrix, member_name, member_spec
from jobs.offers import object_kind
from jobs.services import submission_of, with_defaults
from jobs.specs import TrainingRunSpec
from jobs.sweeps import queries
from policy import judge
from policy.estimates import Estimate, estimate
from policy.verdicts import Verdict
from quotas.snapshots import pool_snapshot_of
from teams.models import Team, User
from workloads.models import Workload
from workloads.services import check_names
from workloads.states import FINAL, Phase, Reason

EFFORT = 40_000
"""How many waiters may be looked at for the last start; a queue that takes more gets no answer."""
ALIKE_MAX = 256
"""Of more members the last start is not looked for."""
WITHOUT_GPUS = Estimate(None, None, "", "Runs without GPUs start where a node has room.")
NOT_LOOKED_FOR = Estimate(None, None, "", f"More than {ALIKE_MAX} members wait.")


@dataclass(frozen=True)
class SweepFigures:
    """What a card says of a sweep besides."""

    members: int
    max_parallel: int | None
    held_back: int
    starting: int | None
    """How many would be admitted at once; None where no quota decides that, or they are submitted already."""
    last_start: Estimate

    @property
    def last_at(self) -> datetime | None:
        """When the last member starts at the latest; None where that is not known."""
        late = self.last_start.p90
        return None if late is None else datetime.fromtimestamp(late, UTC)


@dataclass(frozen=True)
class SweepCard:
    """The card of the next member with the cost of all, and the figures."""

    card: Card
    figures: SweepFigures


def preview_sweep(
    *, spec: TrainingRunSpec, matrix: Matrix, team: Team, user: User, now: datetime
) -> SweepCard:
    """What submitting the sweep now would do; makes nothing. It raises what the preview of a member does, and Conflict where
    the team has too many open ones.
    """
    object_kind(spec.kind)
    queries.check_open_sweeps(team)
    sized = with_defaults(spec)
    first = member_spec(sized, next(matrix.members()), name=member_name(spec.name, 1))
    card, asked = services.previewed(submission=submission_of(first, None), team=team, user=user, now=now)
    if card.outcome != "never":
        names = [member_name(spec.name, number) for number in range(1, matrix.size + 1)]
        check_names(kind=KIND, team=team, names=names)
    at_once = min(matrix.size, matrix.max_parallel or matrix.size)
    starting, last = _crowd(asked, at_once, now) if card.outcome != "never" else (None, card.estimate)
    held = matrix.size - at_once
    figures = SweepFigures(
        matrix.size, matrix.max_parallel, held, starting, _beyond(matrix.max_parallel) if held else last
    )
    whole = replace(
        card,
        verdict=_of_all(card.verdict, starting, matrix.size),
        units=card.units * (starting or 1),
        **_costs(asked, at_once, matrix.size, now),
    )
    return SweepCard(whole, figures)


def _of_all(verdict: Verdict, starting: int | None, members: int) -> Verdict:
    """The first member's verdict, with how many others share it."""
    if not starting or members == 1:
        return verdict
    return replace(
        verdict, message=f"{starting} of {members} members start at once. The first: {verdict.message}"
    )


def _costs(asked: CardRequest, at_once: int, size: int, now: datetime) -> dict[str, Any]:
    """What all members cost: an hour as many as run at once, and at their time limits all of them, which is rounded once."""
    flavor, kind, units, limit = (
        asked.flavor,
        asked.capacity_type,
        asked.waiter.units,
        asked.time_limit_seconds,
    )
    book = spans_by_card()
    beside = () if flavor is None else quotes_for(flavor, units * at_once, None, book, now)
    return {
        "rate_per_hour": rate_now(flavor, kind, units * at_once, book, now),
        "at_time_limit": cost_for(flavor, kind, units * size, limit, book, now),
        "by_capacity": tuple(
            replace(each, at_time_limit=cost_for(flavor, each.capacity_type, units * size, limit, book, now))
            for each in beside
        ),
    }


def _beyond(max_parallel: int | None) -> Estimate:
    return Estimate(
        None, None, "", f"No more than {max_parallel} run at once: the last starts when others have ended."
    )


def _crowd(asked: CardRequest, count: int, now: datetime) -> tuple[int | None, Estimate]:
    """How many of so many alike the policy would admit in one pass, and when it would admit the last."""
    if asked.flavor is None:
        return None, WITHOUT_GPUS
    if count > ALIKE_MAX:
        return None, NOT_LOOKED_FOR
    snapshot = pool_snapshot_of(
        flavor=asked.flavor, capacity_type=asked.capacity_type, now=now, extra=asked.waiter, history=True
    )
    more = [
        replace(asked.waiter, id=f"{asked.waiter.id}-{number}", sequence=asked.waiter.sequence + number)
        for number in range(1, count)
    ]
    crowd = replace(snapshot, waiters=(*snapshot.waiters, *more))
    plan = judge.plan(crowd)
    ids = [asked.waiter.id, *(waiter.id for waiter in more)]
    starting = sum(plan.verdicts[waiter_id].admitted for waiter_id in ids)
    return starting, estimate(crowd, ids[-1], cycle_plan=plan, effort=EFFORT)


def card_of_sweep(
    detail: queries.SweepDetail, *, reader: User, now: datetime, price_book: PriceBook | None = None
) -> SweepCard:
    """The card of the member that is next; where none waits, of one that is furthest, as its own `waiting/` has it."""
    sweep = detail.sweep
    waiting = next(iter(detail.waiting), None)
    shown = waiting or _furthest(detail)
    card = None if waiting is None else waiting_card(waiting, reader=reader, now=now, price_book=price_book)
    if card is None:
        card = card_without_queue(shown, now=now) if shown else None
    if card is None:
        raise NotFound("All members of this sweep were deleted.")
    held = detail.held_back
    last = _beyond(sweep.max_parallel) if held else _last_start(detail, now)
    figures = SweepFigures(sweep.size, sweep.max_parallel, held, None, last)
    ended = all(Phase(phase) in FINAL for phase in detail.members)
    whole = replace(
        card,
        rate_per_hour=detail.cost.rate_per_hour,
        at_time_limit=detail.cost.at_time_limit,
        ended=ended,
    )
    return SweepCard(whole, figures)


def _furthest(detail: queries.SweepDetail) -> Workload | None:
    order = (Phase.RUNNING, Phase.STARTING, Phase.ADMITTED, Phase.STOPPING, Phase.SUSPENDED)
    workloads = [run.workload for run in detail.runs]
    for phase in order:
        if found := next((workload for workload in workloads if workload.phase == phase.value), None):
            return found
    return workloads[-1] if workloads else None


def _last_start(detail: queries.SweepDetail, now: datetime) -> Estimate:
    last = detail.waiting[-1] if detail.waiting else None
    if last is None:
        return Estimate(None, None, "", "No member waits.")
    if last.flavor is None or not last.units:
        return WITHOUT_GPUS
    snapshot = pool_snapshot_of(
        flavor=last.flavor, capacity_type=last.capacity_type, now=now, focus=last, history=True
    )
    if str(last.public_id) not in {waiter.id for waiter in snapshot.waiters}:
        return Estimate(None, None, "", f"It is told why it waits: {Reason(last.reason).value}.")
    return estimate(snapshot, str(last.public_id), effort=EFFORT)
