"""Rows of quotas; each half explains itself."""

from __future__ import annotations

from quotas.models.changes import QuotaChange, QuotaChangeSet, QuotaRequest
from quotas.models.claims import Claim, ClaimPurpose, ClaimState, Preemption
from quotas.models.decisions import Decision, StartEstimate, SupplyRecord
from quotas.models.limits import Cohort, CohortUsage, Quota, TeamPolicy
from quotas.models.pools import Fence, Pool

__all__ = [
    "Claim",
    "ClaimPurpose",
    "ClaimState",
    "Cohort",
    "CohortUsage",
    "Decision",
    "Fence",
    "Pool",
    "Preemption",
    "Quota",
    "QuotaChange",
    "QuotaChangeSet",
    "QuotaRequest",
    "StartEstimate",
    "SupplyRecord",
    "TeamPolicy",
]
