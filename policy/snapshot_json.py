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
    CardFacts,
    Holder,
    PoolSnapshot,
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
    for name in ("accounts", "teams", "blocks", "holders", "waiters", "beyond"):
        body[name] = [vars(each) for each in body[name]]
    body |= {
        "flavor": _flavor_json(snapshot.flavor),
        "provisionable": vars(snapshot.provisionable),
        "card": vars(snapshot.card) if snapshot.card else None,
        "rules": vars(snapshot.rules),
    }
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def load(body: bytes) -> PoolSnapshot:
    """The snapshot that `dump` wrote."""
    found = orjson.loads(body)
    return PoolSnapshot(
        flavor=_flavor(found["flavor"]),
        capacity_type=found["capacity_type"],
        now=found["now"],
        revision=found["revision"],
        accounts=tuple(Account(**each) for each in found["accounts"]),
        teams=tuple(TeamFacts(**each) for each in found["teams"]),
        blocks=tuple(_with(Block, each, "whole", "left") for each in found["blocks"]),
        largest_block=found["largest_block"],
        exists=found["exists"],
        # Decisions that were made before they were told: what is not known refuses nothing.
        hosts=tuple((size, tuple(others)) for size, others in found.get("hosts", ())),
        nodes_seen=found.get("nodes_seen", True),
        provisionable=_with(Provisionable, found["provisionable"], "others"),
        card=CardFacts(**found["card"]) if found["card"] else None,
        holders=tuple(_holder(each) for each in found["holders"]),
        waiters=tuple(_with(Waiter, each, "beside") for each in found["waiters"]),
        beyond=tuple(Beyond(**each) for each in found["beyond"]),
        far=found["far"],
        before_far=found["before_far"],
        rules=AdmissionRules(**found["rules"]),
    )


def digest(body: bytes) -> str:
    """SHA-256 of the canonical bytes, in hex."""
    return hashlib.sha256(body).hexdigest()


def dump_verdict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain JSON values."""
    lists = {name: [vars(each) for each in getattr(verdict, name)] for name in ("evidence", "victims")}
    return {**vars(verdict), **lists}


def load_verdict(body: Mapping[str, Any]) -> Verdict:
    """The verdict that `dump_verdict` wrote."""
    return Verdict(
        **{
            **body,
            "outcome": Outcome(body["outcome"]),
            "reason": Reason(body["reason"]),
            "evidence": tuple(Evidence(**each) for each in body["evidence"]),
            "victims": tuple(
                Victim(**{**each, "cause": PreemptionCause(each["cause"])}) for each in body["victims"]
            ),
        }
    )


Made = TypeVar("Made")


def _with(kind: type[Made], body: dict[str, Any], *names: str) -> Made:
    """One of its fields, of which those named are lists of numbers that older bodies do not have."""
    for name in names:
        if name in body:
            body[name] = tuple(body[name])
    return kind(**body)


def _holder(body: dict[str, Any]) -> Holder:
    body["placed"] = tuple((node, units) for node, units in body["placed"])
    body["taken"] = tuple(tuple(each) for each in body.get("taken", ()))
    return _with(Holder, body, "beside")


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
