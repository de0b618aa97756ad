"""What work cost beyond what it was promised: the platform's, not the team's."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

from costs.ledger.accounts import ADJUSTMENT, team_account
from costs.ledger.entries import project_of
from costs.models import LedgerEntry
from workloads.models import Workload

TOOK_LONGER = "Stopping took longer than its budget had reserved for."


def take_over_excess(workload: Workload, micro_usd: int, *, at: datetime, now: datetime) -> None:
    """Credit the team of the workload so much, which the platform pays, in a period that lasts until `at` at least."""
    moment = at.replace(microsecond=0) - timedelta(seconds=1)
    transaction_id = uuid4()
    LedgerEntry.objects.bulk_create(
        [
            LedgerEntry(
                transaction_id=transaction_id,
                account=account,
                team=workload.team,
                workload=workload,
                flavor_name=workload.flavor.name if workload.flavor else "",
                started_at=moment,
                ended_at=moment,
                units=workload.units,
                user_id=workload.owner_id,
                project=project_of(workload),
                amount_micro_usd=amount,
                reason=TOOK_LONGER,
                posted_at=now,
            )
            for account, amount in ((team_account(workload.team.slug), -micro_usd), (ADJUSTMENT, micro_usd))
        ]
    )
