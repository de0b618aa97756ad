"""Admission's verdict: one dominant reason, the numbers behind it, and the runs that must leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from workloads.states import Reason


class Outcome(StrEnum):
    ADMIT = "admit"
    WAIT = "wait"
    NEVER = "never"


class PreemptionCause(StrEnum):
    """Kueue's tokens for why a run has to leave, and two of our own."""

    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_CLUSTER_QUEUE = "InClusterQueue"
    HEADROOM_RECLAIMED = "HeadroomReclaimed"
    QUOTA_REDUCED = "QuotaReduced"


@dataclass(frozen=True)
class Evidence:
    fact: str
    value: int
    unit: str


@dataclass(frozen=True)
class Victim:
    """A run that has to leave so that another may start, and the work it loses by that."""

    id: str
    team: str
    lost_seconds: int
    cause: PreemptionCause


@dataclass(frozen=True)
class Verdict:
    """`rule` names the step of the policy that decided; `field` the request's field at fault for NEVER.

    `lent`: admitted on headroom of its team's endpoints. `backfilled`: admitted past another that waits.
    """

    outcome: Outcome
    reason: Reason
    message: str
    rule: str
    evidence: tuple[Evidence, ...] = ()
    field: str = ""
    victims: tuple[Victim, ...] = ()
    lent: bool = False
    backfilled: bool = False

    @property
    def admitted(self) -> bool:
        return self.outcome is Outcome.ADMIT


@dataclass(frozen=True)
class CyclePlan:
    """A pass over a pool: a verdict for every waiter of its snapshot, in the order in which they were judged.

    `next_at`: when the next pass could decide otherwise though only time has passed, in seconds since the
    epoch; None where no waiter waits for such a moment.
    """

    verdicts: Mapping[str, Verdict]
    order: tuple[str, ...]
    next_at: int | None = None

    @property
    def admitted(self) -> tuple[str, ...]:
        return tuple(waiter_id for waiter_id in self.order if self.verdicts[waiter_id].admitted)
