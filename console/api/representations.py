"""How a workload is described to people and programs: one shape for REST and pages, built in few queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from controller.waiting_card import Card, LeverOffer, card_of, lacks_a_node
from costs.queries import Cost, PriceBook, cost_of, costs_of
from foundation.money import as_json
from policy.verdicts import Evidence
from quotas.models import Preemption
from quotas.queries import nameable_teams
from teams.models import User
from workloads.kinds import WorkloadKind, kind_of
from workloads.models import Attempt, Workload
from workloads.podspec.specs import ContainerSpec
from workloads.states import Phase

LINKED = ("events", "pods", "logs", "manifests", "waiting", "cost")
EXPANSIONS = ("attempts", "links", "spec")
"""What a row of a list has in whole only where it is asked for."""
ROW_MESSAGE_LENGTH = 160


def describe(
    workloads: Sequence[Workload], *, specs: Mapping[int, Mapping[str, Any]], now: datetime
) -> list[dict[str, Any]]:
    """The public shape of each workload (design of the REST API); `specs` by the workload's key.

    Team, owner and flavor have to be selected and attempts prefetched by the caller.
    """
    whole = frozenset(EXPANSIONS)
    return describe_rows(workloads, specs=specs, now=now, expand=whole, message_length=None)


def describe_rows(
    workloads: Sequence[Workload],
    *,
    specs: Mapping[int, Mapping[str, Any]],
    now: datetime,
    expand: Collection[str],
    message_length: int | None = ROW_MESSAGE_LENGTH,
) -> list[dict[str, Any]]:
    """The shape of each in a list: what is long only where `expand` names it; attempts have to be prefetched then."""
    costs = costs_of(workloads, now=now)
    shapes = []
    for workload in workloads:
        spec = specs.get(workload.pk, {})
        shape = _row(workload, spec, costs[workload.pk])
        shape["message"] = shorten(workload.message, message_length)
        if "attempts" in expand:
            shape["attempts"] = [_attempt(attempt) for attempt in workload.attempts.all()]
        if "links" in expand:
            shape["links"] |= _links(workload) | _tracking(workload)
        shapes.append(shape)
    return shapes


def shorten(text: str, length: int | None) -> str:
    """The text, or its beginning with an ellipsis where it is longer."""
    return text if length is None or len(text) <= length else f"{text[: length - 1]}…"


def _row(workload: Workload, spec: Mapping[str, Any], cost: Cost) -> dict[str, Any]:
    return {
        "id": workload.public_id,
        "team": workload.team.slug,
        "owner": workload.owner.username,
        "name": workload.name,
        "kind": spec.get("kind", workload.kind),
        "phase": workload.phase,
        "reason": workload.reason,
        "since": workload.since,
        "observed_at": workload.observed_at,
        "priority": workload.priority,
        "flavor": workload.flavor.name if workload.flavor else None,
        "capacity": workload.capacity_type,
        "quantity": workload.units,
        "labels": workload.labels,
        "spec": spec,
        "cost": describe_cost(cost),
        "simulated": workload.simulated,
        "created_at": workload.created_at,
        "admitted_at": workload.admitted_at,
        "started_at": workload.started_at,
        "finished_at": workload.finished_at,
        "url": f"{settings.PUBLIC_URL}{workload.page_url}",
        "links": {"self": _address(workload)},
    }


def _address(workload: Workload) -> str:
    return f"{settings.PUBLIC_URL}{workload.own_kind.resource_of(workload.public_id)}"


def _links(workload: Workload) -> dict[str, str]:
    return {name: f"{_address(workload)}{name}/" for name in LINKED}


def _tracking(workload: Workload) -> dict[str, str]:
    """Where it tracks what it does, if its team has such a place and its kind does."""
    address = workload.team.mlflow_tracking_uri
    return {"mlflow": address} if address and workload.own_kind.tracks else {}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "phase": attempt.phase,
        "reason": attempt.reason,
        "message": attempt.message,
        "exit_code": attempt.exit_code,
        "resumed_from": attempt.resumed_from or None,
        "lost_seconds": attempt.lost_seconds,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
    }


def describe_cost(cost: Cost) -> dict[str, Any]:
    """Amounts are null where a price is missing; `reason` then says so."""
    return {
        "so_far": as_json(cost.so_far),
        "rate_per_hour": as_json(cost.rate_per_hour),
        "at_time_limit": as_json(cost.at_time_limit),
        "current_rate_per_hour": as_json(cost.current_rate_per_hour),
        "reason": cost.reason,
    }


def describe_waiting(workload: Workload, *, reader: User, now: datetime) -> dict[str, Any]:
    """Why it waits, by the code that admits it; for a workload that does not wait, what it is doing, and what it lacks
    of which node where that keeps it from starting.
    """
    card = waiting_card(workload, reader=reader, now=now)
    if card is None:
        return _not_waiting(workload, cost_of(workload, now=now), now)
    return describe_queued(workload, card)


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
    # As far as anybody knows there is room; the scheduler has its own reasons.
    return None if unplaced and card.verdict.admitted else card


def describe_queued(workload: Workload, card: Card) -> dict[str, Any]:
    """The card of what waits, with since when it says so."""
    return describe_card(card) | {"since": workload.since}


def describe_card(card: Card) -> dict[str, Any]:
    """A card as REST and pages show it; the same for what waits and for what nobody has submitted."""
    verdict = card.verdict
    seen_at = (card.seen.nodes_at if card.seen else None) or card.now
    return {
        "verdict": verdict.outcome.value,
        "reason": verdict.reason.value,
        "message": verdict.message,
        "rule": verdict.rule,
        "evidence": _evidence(verdict.evidence, now=card.now, seen_at=seen_at),
        "position": card.position,
        "ahead_count": card.ahead_count,
        "ahead": [{"id": each.id, "team": each.team, "units": each.units} for each in card.ahead],
        "start": _start(card),
        "cost": {
            "rate_per_hour": as_json(card.rate_per_hour),
            "at_time_limit": as_json(card.at_time_limit),
        },
        "quota": {"before": card.quota_before, "after": card.quota_after},
        "fair_share": _fair_share(card),
        "victims": [
            {
                "id": each.id if card.team and each.team == card.team.slug else None,
                "lost_seconds": each.lost_seconds,
            }
            for each in verdict.victims
        ],
        "levers": [_lever(offer, kind_of(card.kind)) for offer in card.offers],
        "levers_complete": card.offers_complete,
        "revision": card.revision,
        "as_of": card.now,
        "decision": card.decision,
        "since": None,
        "preempted": _preempted(card.preempted),
        "warnings": [asdict(hint) for hint in card.hints],
    }


def _not_waiting(workload: Workload, cost: Cost, now: datetime) -> dict[str, Any]:
    start = {"p50": None, "p90": None, "basis": None, "unknown_because": "Not queued.", "past_hit_rate": None}
    return {
        "verdict": "admit",
        "reason": workload.reason,
        "message": workload.message,
        "rule": "",
        "evidence": [],
        "position": None,
        "ahead_count": 0,
        "ahead": [],
        "start": start,
        "cost": {
            "rate_per_hour": as_json(cost.rate_per_hour),
            "at_time_limit": as_json(cost.at_time_limit),
        },
        "quota": {"before": {}, "after": {}},
        "fair_share": None,
        "victims": [],
        "levers": [],
        "levers_complete": True,
        "revision": 0,
        "as_of": now,
        "decision": None,
        "since": workload.since,
        "preempted": _preempted(workload.preemptions.first()),
        "warnings": [],
    }


def _preempted(last: Preemption | None) -> dict[str, Any] | None:
    """The last time that it had to leave for somebody, if it ever had to."""
    if last is None:
        return None
    return {
        "cause": last.cause,
        "message": last.message,
        "lost_seconds": last.lost_seconds,
        "at": last.at,
        "ended_at": last.ended_at,
    }


def _fair_share(card: Card) -> dict[str, Any] | None:
    if card.team is None:
        return None
    return {
        "use": card.team.use,
        "weight": card.team.weight,
        "share": card.team.use // card.team.weight,
    }


def _start(card: Card) -> dict[str, Any]:
    guess = card.estimate
    return {
        "p50": _moment(guess.p50),
        "p90": _moment(guess.p90),
        "basis": guess.basis or None,
        "unknown_because": guess.unknown_because,
        "past_hit_rate": card.past_hit_rate,
    }


def _lever(offer: LeverOffer, kind: WorkloadKind) -> dict[str, Any]:
    change = dict(offer.lever.change)
    if "replicas" in change:
        change[kind.replicas_field] = change.pop("replicas")
    return {
        "change": change,
        "verdict": offer.lever.verdict.outcome.value,
        "reason": offer.lever.verdict.reason.value,
        "start_p50": _moment(offer.lever.estimate.p50),
        "start_p90": _moment(offer.lever.estimate.p90),
        "rate_per_hour": as_json(offer.rate_per_hour),
        "cost_at_time_limit": as_json(offer.at_time_limit),
    }


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)


_OF_NODES = frozenset(
    {
        "free",
        "largest_free_block",
        "provisionable",
        "largest_free_cpu",
        "largest_free_memory",
        "largest_free_ephemeral_storage",
    }
)


def _evidence(evidence: Sequence[Evidence], *, now: datetime, seen_at: datetime) -> list[dict[str, Any]]:
    """Every number with its age: what nodes have is as old as the watch of nodes, all else is of this moment."""
    return [
        {
            "fact": item.fact,
            "value": item.value,
            "unit": item.unit,
            "observed_at": seen_at if item.fact in _OF_NODES else now,
        }
        for item in evidence
    ]
