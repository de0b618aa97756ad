"""Lines of the ledger about a pod, as they are posted first: who pays for which second of it, and what it did then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import uuid4

from costs.ledger.accounts import ADJUSTMENT, SUPPLY, lane_account, team_account
from costs.models import LedgerEntry, UsageInterval
from costs.pricing import PricedSegment
from workloads.models import PodRecord, Workload

STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
PROJECT_LABEL = "project"
NOT_SEEN = "Nobody saw the pod in this time, so it is not known when it ended."
"""Why the platform pays for what may not have been used any more."""


def moments_of(row: UsageInterval, pod: PodRecord | None) -> list[datetime]:
    """When the pod began to do something else, as far as it is known, and until when somebody saw it."""
    known = [row.evidenced_until]
    if pod is not None:
        known += [pod.started_at, pod.stops_from]
    return [moment.replace(microsecond=0) for moment in known if moment is not None]


def phase_at(moment: datetime, pod: PodRecord | None) -> str:
    """What the pod did then; empty where nothing is known of it any more."""
    if pod is None:
        return ""
    if pod.stops_from is not None and pod.stops_from.replace(microsecond=0) <= moment:
        return STOPPING
    if pod.started_at is not None and pod.started_at.replace(microsecond=0) <= moment:
        return RUNNING
    return STARTING


def posting(
    row: UsageInterval, line: PricedSegment, pod: PodRecord | None, now: datetime
) -> Iterator[LedgerEntry]:
    """Both sides: the team pays for what is evidenced, the platform for the rest, and supply receives."""
    segment = line.segment
    seen = row.evidenced_until is None or segment.start < row.evidenced_until
    payer = team_account(row.team.slug) if seen else ADJUSTMENT
    transaction_id = uuid4()
    for account, sign in ((payer, 1), (lane_account(SUPPLY, row.card, row.capacity_type), -1)):
        yield LedgerEntry(
            transaction_id=transaction_id,
            account=account,
            team=row.team,
            workload=row.workload,
            pod_uid=row.pod_uid,
            node_name=row.node_name,
            flavor_name=row.flavor_name,
            started_at=segment.start,
            ended_at=segment.end,
            price_id=segment.span.price_id,
            units=row.units,
            user_id=row.workload.owner_id,
            project=project_of(row.workload),
            phase=phase_at(segment.start, pod),
            amount_micro_usd=sign * line.amount_micro_usd,
            reason="" if seen else NOT_SEEN,
            posted_at=now,
        )


def project_of(workload: Workload) -> str:
    """The project that a workload's costs belong to: its label `project`, or none."""
    return str(workload.labels.get(PROJECT_LABEL, ""))[:63]
