"""How a workload is described to people and programs: one shape for REST and pages, built in few queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from controller import admission
from controller.services import Preview
from costs.queries import Cost, costs_of
from foundation.money import as_json
from quotas.policy import Evidence
from workloads.models import Attempt, Workload
from workloads.states import Phase

RESOURCE_PATH: dict[str, str] = {"training-run": "training-runs", "endpoint": "endpoints"}
PAGE_PATH: dict[str, str] = {"training-run": "runs", "endpoint": "endpoints"}


def describe(
    workloads: Sequence[Workload], *, specs: Mapping[int, Mapping[str, Any]], now: datetime
) -> list[dict[str, Any]]:
    """The public shape of each workload (design of the REST API); `specs` by the workload's key.

    Team, owner and flavor have to be selected and attempts prefetched by the caller.
    """
    costs = costs_of(workloads, now=now)
    return [_one(workload, specs.get(workload.pk, {}), costs[workload.pk]) for workload in workloads]


def _one(workload: Workload, spec: Mapping[str, Any], cost: Cost) -> dict[str, Any]:
    path = f"/api/v1/{RESOURCE_PATH[workload.kind]}/{workload.public_id}/"
    return {
        "id": workload.public_id,
        "team": workload.team.slug,
        "owner": workload.owner.username,
        "name": workload.name,
        "kind": spec.get("kind", workload.kind),
        "phase": workload.phase,
        "reason": workload.reason,
        "message": workload.message,
        "since": workload.since,
        "observed_at": workload.observed_at,
        "priority": workload.priority,
        "flavor": workload.flavor.name if workload.flavor else None,
        "capacity": workload.capacity_type,
        "quantity": workload.units,
        "labels": workload.labels,
        "spec": spec,
        "attempts": [_attempt(attempt) for attempt in workload.attempts.all()],
        "cost": describe_cost(cost),
        "simulated": workload.simulated,
        "created_at": workload.created_at,
        "admitted_at": workload.admitted_at,
        "started_at": workload.started_at,
        "finished_at": workload.finished_at,
        "url": f"{settings.PUBLIC_URL}/{PAGE_PATH[workload.kind]}/{workload.public_id}/",
        "links": {
            name: f"{settings.PUBLIC_URL}{path}{tail}"
            for name, tail in (
                ("self", ""),
                ("events", "events/"),
                ("pods", "pods/"),
                ("logs", "logs/"),
                ("manifests", "manifests/"),
                ("waiting", "waiting/"),
                ("cost", "cost/"),
            )
        },
    }


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
        "reason": cost.reason,
    }


def describe_waiting(workload: Workload, *, cost: Cost, now: datetime) -> dict[str, Any]:
    """Why it waits, by the code that admits it; for a workload that does not wait, what it is doing."""
    queued = workload.phase == Phase.QUEUED.value
    card: dict[str, Any] = {
        "verdict": "wait" if queued else "admit",
        "reason": workload.reason,
        "message": workload.message,
        "evidence": [],
        "position": None,
        "start": _no_estimate("Not queued." if not queued else "Estimates of the start are not offered yet."),
        "cost": {
            "rate_per_hour": as_json(cost.rate_per_hour),
            "at_time_limit": as_json(cost.at_time_limit),
        },
        "quota": {"before": {}, "after": {}},
    }
    if queued:
        judgement = admission.explain(workload, now=now)
        facts = {evidence.fact: evidence.value for evidence in judgement.evidence}
        card |= {
            "evidence": _evidence(judgement.evidence, now),
            "position": admission.position(workload, now=now),
        }
        if not judgement.admitted:
            card |= {
                "verdict": judgement.outcome.value,
                "reason": judgement.reason,
                "message": judgement.message,
            }
        if {"nominal", "used"} <= facts.keys():
            before = {"nominal": facts["nominal"], "used": facts["used"]}
            card["quota"] = {"before": before, "after": {**before, "used": facts["used"] + workload.units}}
    return card


def describe_preview(preview: Preview, *, now: datetime) -> dict[str, Any]:
    """The same shape for something that has not been submitted."""
    judgement = preview.judgement
    return {
        "verdict": judgement.outcome.value,
        "reason": judgement.reason.value,
        "message": judgement.message,
        "evidence": _evidence(judgement.evidence, now),
        "position": None if judgement.admitted else preview.position,
        "start": _no_estimate(
            "Starts now." if judgement.admitted else "Estimates of the start are not offered yet."
        ),
        "cost": {
            "rate_per_hour": as_json(preview.rate_per_hour),
            "at_time_limit": as_json(preview.at_time_limit),
        },
        "quota": {"before": preview.quota_before, "after": preview.quota_after},
    }


def _evidence(evidence: Sequence[Evidence], now: datetime) -> list[dict[str, Any]]:
    return [
        {"fact": item.fact, "value": item.value, "unit": item.unit, "observed_at": now} for item in evidence
    ]


def _no_estimate(because: str) -> dict[str, Any]:
    return {"p50": None, "p90": None, "basis": None, "unknown_because": because}
