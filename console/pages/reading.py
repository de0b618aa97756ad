"""What a page of one workload reads: every fact once, and only if a part of the page needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Generic, Literal, TypeVar

from django.db.models import Q
from django.http import HttpRequest

from console.pages.queries import watches_of
from console.pages.timeline import Moved, Timeline, timeline
from costs.queries import Cost, PriceBook, cost_of, cost_of_nothing, spans_by_card
from workloads.models import Attempt, Workload
from workloads.services import DRIFT
from workloads.watches import Watches

OF_A_ROLLOUT = "revision "
"""How the source of an event begins that is a step of a rollout and moves nothing."""
NO_MOVE = Q(source__startswith=OF_A_ROLLOUT) | Q(source=DRIFT)
"""Notes in the history: steps of rollouts, and what others changed in the cluster."""
LIVE_EVENTS_MAX = 500
"""Moves that the timeline is drawn from."""
Own = TypeVar("Own")
"""What only one kind of workload has."""

FRESH_WITHIN: Final = timedelta(seconds=60)
"""Each watch is heard of every 20 seconds, and a dead one is noticed within 30."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old the oldest of what the portal watches is."""

    state: Literal["unknown", "fresh", "stale"]
    seen_at: datetime | None


def freshness_of(seen_at: datetime | None, *, now: datetime) -> Freshness:
    """The freshness of a portal. `seen_at` is when its quietest watch was last heard of; None where none ever was."""
    if seen_at is None:
        return Freshness("unknown", None)
    return Freshness("fresh" if now - seen_at <= FRESH_WITHIN else "stale", seen_at)


def newest_moves(workload: Workload, **beside: Any) -> list[Any]:
    """As many of a workload's moves as a timeline is drawn from, the oldest first, without the steps of rollouts; each with
    what is read `beside` it.
    """
    moves = workload.events.exclude(NO_MOVE).annotate(**beside).order_by("-id")
    shown = moves.values_list("at", "to_phase", "reason", "attempt", *beside, named=True)
    return list(shown[:LIVE_EVENTS_MAX])[::-1]


@dataclass(frozen=True)
class PageReading(Generic[Own]):
    """What a part of the page may look at. Its parts share one: what the first of them read, the others have."""

    request: HttpRequest
    workload: Workload
    now: datetime
    read: Callable[[Workload], Own]

    @cached_property
    def own(self) -> Own:
        """What only its kind has."""
        return self.read(self.workload)

    @cached_property
    def attempts(self) -> list[Attempt]:
        """All of them, the oldest first; no query for what has not had any."""
        return list(self.workload.attempts.order_by("number")) if self.workload.attempt_number else []

    @property
    def watches(self) -> Watches:
        """What is followed of the cluster."""
        return watches_of(self.request)

    def followed(self) -> frozenset[str]:
        """The kinds that are followed."""
        return self.watches.kinds

    @cached_property
    def past(self) -> list[Moved]:
        """Its newest moves, the oldest first, without the steps of rollouts."""
        return newest_moves(self.workload)

    def past_with(self, **beside: Any) -> list[Any]:
        """`past`, and what is read `beside` each of its moves. Who needs that has to ask before the timeline does, which
        then asks no more.
        """
        vars(self)["past"] = moves = newest_moves(self.workload, **beside)
        return moves

    @cached_property
    def timeline(self) -> Timeline | None:
        """What happened when, without the steps of rollouts; None before anything has."""
        return timeline(self.past, now=self.now)

    @cached_property
    def price_book(self) -> PriceBook:
        return spans_by_card()

    @cached_property
    def cost(self) -> Cost:
        """What it has cost so far, and would cost. What has had no attempt has had no pod."""
        if not self.workload.attempt_number:
            return cost_of_nothing(self.workload, now=self.now, price_book=self.price_book)
        return cost_of(self.workload, now=self.now, price_book=self.price_book)
