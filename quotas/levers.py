"""What a waiter could change to start sooner, each proved by the policy itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quotas.estimates import Estimate
from quotas.supply import Supply
from quotas.verdicts import Verdict


@dataclass(frozen=True)
class Alternative:
    """Another pool that the waiter could ask for, with the request's fields that lead to it."""

    change: Mapping[str, str]
    supply: Supply


@dataclass(frozen=True)
class Lever:
    """Fields of the request to change, and what would be answered then."""

    change: Mapping[str, int | str]
    verdict: Verdict
    estimate: Estimate


def levers(
    supply: Supply,
    waiter_id: str,
    alternatives: Sequence[Alternative] = (),
    *,
    time_limit_seconds: int | None = None,
) -> tuple[Lever, ...]:
    raise NotImplementedError
