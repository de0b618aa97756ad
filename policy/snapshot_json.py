"""A snapshot as canonical JSON and back: what a Decision keeps, named by the hash of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeVar

import orjson

from policy.pool_snapshot import (
    Account,
    AdmissionRules,
    Beyond,
    Block,
    BudgetFacts,
    CardFacts,
    Holder,
    PoolSnapshot,
    PriceFacts,
    Provisionable,
    TeamFacts,
    Waiter,
)
from policy.verdicts import Evidence, Outcome, PreemptionCause, Verdict, Victim
from workloads.placement import FlavorFacts, Sharing
from workloads.states import Reason


def dump(snapshot: PoolSnapshot) -> bytes:
    """The same bytes for the same facts."""
    # The facts' own dictionaries, not copies of them: a pass writes thousands.
    body = dict(vars(snapshot))
    for name in ("accounts", "teams", "blocks", "holders", "waiters", "beyond", "prices"):
        body[name] = [vars(facts) for facts in body[name]]
    body |= {
        "flavor": _flavor_json(snapshot.flavor),
        "provisionable": vars(snapshot.provisionable),
        "card": vars(snapshot.card) if snapshot.card else None,
        "rules": vars(snapshot.rules),
    }
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def load(body: bytes) -> PoolSnapshot:
    """The snapshot that `dump` wrote."""
    values = orjson.loads(body)
    return PoolSnapshot(
        flavor=_flavor(values["flavor"]),
        capacity_type=values["capacity_type"],
        now=values["now"],
        revision=values["revision"],
        accounts=tuple(Account(**row) for row in values["accounts"]),
        teams=tuple(_team(row) for row in values["teams"]),
        blocks=tuple(_with(Block, row, "whole", "left") for row in values["blocks"]),
        largest_block=values["largest_block"],
        exists=values["exists"],
        # Decisions from before hosts were part of a snapshot: what is not known refuses nothing.
        hosts=tuple((size, tuple(others)) for size, others in values.get("hosts", ())),
        nodes_seen=values.get("nodes_seen", True),
        provisionable=_with(Provisionable, values["provisionable"], "others"),
        card=CardFacts(**values["card"]) if values["card"] else None,
        holders=tuple(_holder(row) for row in values["holders"]),
        waiters=tuple(_with(Waiter, row, "beside", "most") for row in values["waiters"]),
        beyond=tuple(Beyond(**row) for row in values["beyond"]),
        far=values["far"],
        before_far=values["before_far"],
        rules=AdmissionRules(**values["rules"]),
        prices=tuple(PriceFacts(**row) for row in values.get("prices", ())),
    )


def digest(body: bytes) -> str:
    """SHA-256 of the canonical bytes, in hex."""
    return hashlib.sha256(body).hexdigest()


def dump_verdict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain JSON values."""
    lists = {name: [vars(facts) for facts in getattr(verdict, name)] for name in ("evidence", "victims")}
    return {**vars(verdict), **lists}


def load_verdict(body: Mapping[str, Any]) -> Verdict:
    """The verdict that `dump_verdict` wrote."""
    return Verdict(
        **{
            **body,
            "outcome": Outcome(body["outcome"]),
            "reason": Reason(body["reason"]),
            "evidence": tuple(Evidence(**row) for row in body["evidence"]),
            "victims": tuple(
                Victim(**{**row, "cause": PreemptionCause(row["cause"])}) for row in body["victims"]
            ),
        }
    )


Made = TypeVar("Made")


def _with(kind: type[Made], body: dict[str, Any], *names: str) -> Made:
    """An object of the body's fields; those named are lists of numbers that older bodies do not have."""
    for name in names:
        if name in body:
            body[name] = tuple(body[name])
    return kind(**body)


def _team(body: dict[str, Any]) -> TeamFacts:
    budget = body.get("budget")
    body["budget"] = BudgetFacts(**budget) if budget else None
    return _with(TeamFacts, body, "ceilings", "held")


def _holder(body: dict[str, Any]) -> Holder:
    body["placed"] = tuple((node, units) for node, units in body["placed"])
    body["taken"] = tuple(tuple(amounts) for amounts in body.get("taken", ()))
    return _with(Holder, body, "beside", "most")


def _flavor_json(flavor: FlavorFacts) -> dict[str, Any]:
    fraction = flavor.gpu_fraction
    return {
        "name": flavor.name,
        "card": flavor.card,
        "resource": flavor.resource,
        "gpu_fraction": f"{fraction.numerator}/{fraction.denominator}",
        "sharing": flavor.sharing.value,
        "node_selector": {key: list(values) for key, values in flavor.node_selector.items()},
        "tolerations": [dict(toleration) for toleration in flavor.tolerations],
        "capacity": {name: dict(offer) for name, offer in flavor.capacity.items()},
    }


def _flavor(body: Mapping[str, Any]) -> FlavorFacts:
    return FlavorFacts(
        **{**body, "gpu_fraction": Fraction(body["gpu_fraction"]), "sharing": Sharing(body["sharing"])}
    )
