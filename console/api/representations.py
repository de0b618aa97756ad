"""What REST answers about a workload is made of: what is read for it once, by which the serializers show it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from controller.hints import Hint
from controller.routes import gateway_url
from controller.waiting_card import Card, card_of, lacks_a_node
from costs.queries import (
    CapacityQuote,
    Cost,
    CostLine,
    PriceBook,
    cost_lines,
    cost_of,
    costs_of,
    quotes_for,
    spans_by_card,
)
from policy.estimates import Estimate
from policy.verdicts import Outcome, Verdict
from quotas.queries import nameable_teams
from teams.models import User
from workloads.models import Workload
from workloads.podspec.specs import ContainerSpec
from workloads.states import Phase, Reason

LINKED = ("events", "pods", "logs", "manifests", "waiting", "diagnosis", "timeline", "cost")
SUSPENDED = "It is suspended, and asks for nothing until it is resumed."
EXPANSIONS = frozenset({"attempts", "links", "spec"})
"""What a row of a list has in whole only where it is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAnswer:
    """A workload with what its own row does not hold; team, owner and flavor are selected."""

    workload: Workload
    spec: Mapping[str, Any]
    cost: Cost | None
    """None where it was not asked for."""
    expand: Collection[str] = EXPANSIONS
    of_kind: Mapping[str, Any] = field(default_factory=dict)
    """Fields that only its kind has."""
    hints: Sequence[Hint] = ()
    """Only after a submission: what its request says that is allowed and seldom meant."""

    @property
    def kind(self) -> str:
        """Its kind; of a run, which sort of one its spec asks for."""
        return str(self.spec.get("kind", self.workload.kind))

    @property
    def flavor(self) -> str | None:
        """None for a workload without a GPU."""
        return self.workload.flavor.name if self.workload.flavor else None

    @property
    def url(self) -> str:
        """The address of its page."""
        return f"{settings.PUBLIC_URL}{self.workload.page_url}"

    @property
    def links(self) -> dict[str, str]:
        """Where REST tells more of it; where the gateway takes its requests; where it tracks what it does, if its
        team has such a place.
        """
        own = f"{settings.PUBLIC_URL}{self.workload.own_kind.resource_of(self.workload.public_id)}"
        if "links" not in self.expand:
            return {"self": own}
        tracking = self.workload.team.mlflow_tracking_uri if self.workload.own_kind.tracks else ""
        return {
            "self": own,
            **{name: f"{own}{name}/" for name in LINKED},
            **({"gateway": gateway_url(self.workload)} if self.workload.own_kind.takes_requests else {}),
            **({"mlflow": tracking} if tracking else {}),
        }


def answers_of(
    workloads: Sequence[Workload],
    *,
    specs: Mapping[int, Mapping[str, Any]],
    now: datetime,
    expand: Collection[str] = EXPANSIONS,
    with_cost: bool = True,
    of_kind: Callable[[Workload], Mapping[str, Any]] = lambda _: {},
) -> list[WorkloadAnswer]:
    """Each with its spec, which `specs` holds by the workload's key, its cost, and what `of_kind` tells; in few queries."""
    costs = costs_of(workloads, now=now) if with_cost else {}
    return [
        WorkloadAnswer(
            workload=workload,
            spec=specs.get(workload.pk, {}),
            cost=costs.get(workload.pk),
            expand=expand,
            of_kind=of_kind(workload),
        )
        for workload in workloads
    ]


@dataclass(frozen=True, kw_only=True)
class CostDetail(Cost):
    """The totals, and a line a pod, oldest first; not complete where older pods are left out."""

    lines: Sequence[CostLine]
    lines_complete: bool


def cost_detail(workload: Workload, *, now: datetime) -> CostDetail:
    """What the workload costs, and the share of each of its newest pods."""
    price_book = spans_by_card()
    detail = cost_lines(workload, now=now, price_book=price_book)
    cost = cost_of(workload, now=now, price_book=price_book)
    return CostDetail(**asdict(cost), lines=detail.lines, lines_complete=detail.complete)


def waiting_card(
    workload: Workload,
    *,
    reader: User,
    now: datetime,
    price_book: PriceBook | None = None,
    container: ContainerSpec | None = None,
) -> Card | None:
    """The card; None of what does not wait. `price_book` and `container`, as its adapter has it, spare queries.

    The reader sees other teams by name where their policy shows it, and the levers that a request of the own has.
    """
    unplaced = lacks_a_node(workload)
    if workload.phase != Phase.QUEUED.value and not unplaced:
        return None
    named = nameable_teams(reader)
    card = card_of(
        workload, named=named, now=now, reader_id=reader.pk, price_book=price_book, container=container
    )
    # As far as is known there is room; the scheduler has its own reasons.
    return None if card is None or (unplaced and card.verdict.admitted) else card


def _by_capacity(workload: Workload, now: datetime) -> tuple[CapacityQuote, ...]:
    """None of what holds its pods already, or has ended: there is nothing left to choose."""
    if workload.flavor is None or workload.phase != Phase.SUSPENDED.value:
        return ()
    return quotes_for(workload.flavor, workload.units, workload.time_limit_seconds, spans_by_card(), now)


def card_without_queue(workload: Workload, *, now: datetime) -> Card:
    """What `waiting/` answers of what does not wait: what it is doing, and what it costs."""
    cost = cost_of(workload, now=now)
    suspended = workload.phase == Phase.SUSPENDED.value
    outcome = Outcome.WAIT if suspended else Outcome.ADMIT
    return Card(
        verdict=Verdict(outcome, Reason(workload.reason), workload.message, rule=""),
        kind=workload.kind,
        units=workload.units,
        now=now,
        revision=0,
        position=None,
        ahead_count=0,
        ahead=(),
        estimate=Estimate(None, None, "", SUSPENDED if suspended else "Not queued."),
        past_hit_rate=None,
        rate_per_hour=cost.rate_per_hour,
        at_time_limit=cost.at_time_limit,
        by_capacity=_by_capacity(workload, now),
        account=None,
        team=None,
        preempted=workload.preemptions.first(),
        since=workload.since,
        ended=workload.is_final,
    )
