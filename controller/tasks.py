"""The worker's tasks. Every task may be lost, repeated or late: the rows say what is to be done."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError, transaction

from cluster.client import get_client
from cluster.errors import ClusterRejected, ClusterUnavailable
from controller import closing, retention, wakeups
from controller.admission import forecasts, preemption, scheduler
from controller.closing import CLOSE_TASK
from controller.reconcile import garbage
from controller.reconcile.reconciler import ANSWER_FRESH_SECONDS, reconcile
from controller.wakeups import PASS_TASK, RECONCILE_TASK, hints_waiting, send, send_pool, wake_workloads
from costs.ledger.services import settle_due
from foundation import clock, leases
from foundation.database import is_away
from foundation.models import PlatformSettings
from foundation.tasks import task
from logs import workload_logs
from quotas import decisions, evictions
from quotas.errors import QuotaExceeded
from quotas.models import Pool
from teams.models import Team
from tenancy import access, resource_quotas
from workloads import locks

logger = logging.getLogger(__name__)

SWEEP_BATCH_MAX = 500
SWEEP_BACKLOG_MAX = 16
"""Hints beyond that in the queue say that the workers have not come to the last ones: more of them do not help."""
LOOKS_MAX = 5
LEASE_SECONDS = 25
"""Less than the 30 seconds between two beats: one that comes a little early finds the lease of the last one expired."""
CLOSING_LEASE_SECONDS = 4
SWEEP_GRACE = timedelta(seconds=1)


@task(name=RECONCILE_TASK)
def reconcile_workload(*, workload_id: str, **_future: Any) -> None:
    """Reconcile one workload, repeatedly while wake-ups arrive."""
    client = get_client()
    for _ in range(LOOKS_MAX):
        if not reconcile(public_id=UUID(workload_id), client=client, now=clock.now()):
            return


@task(name="controller.sweep_due_workloads")
def sweep_due_workloads(**_future: Any) -> None:
    """Send a wake-up for every row that is due: recovers messages that the broker lost."""
    with leases.periodic("sweep", seconds=1) as ours:
        if ours:
            _sweep(clock.now())


def _sweep(now: datetime) -> None:
    # Writes come first, while the lease is fresh: hints may be sent twice.
    evictions.end_stale(now=now)
    if unmet := preemption.unmet():
        with transaction.atomic():
            leases.check()
            wake_workloads(unmet, now=now)
    if hints_waiting(RECONCILE_TASK) <= SWEEP_BACKLOG_MAX:
        for public_id in locks.due(by=now - SWEEP_GRACE).values_list("public_id", flat=True)[
            :SWEEP_BATCH_MAX
        ]:
            send(public_id, swept=True)
    if hints_waiting(PASS_TASK) <= SWEEP_BACKLOG_MAX:
        # Making a pool due sends a message too; the time that a pass sets for the next one does not.
        for pool in Pool.objects.filter(due_at__lte=now):
            send_pool(flavor_id=pool.flavor_id, capacity_type=pool.capacity_type, swept=True)


@task(name=PASS_TASK)
def pass_over_pool(*, flavor_id: int, capacity_type: str, **_future: Any) -> None:
    """Admit workloads that fit the pool, if it is due. While the cluster is unavailable it stays due."""
    pool = Pool.objects.select_related("flavor").filter(flavor=flavor_id, capacity_type=capacity_type).first()
    if pool is None:
        return
    client = get_client()
    try:
        if not client.answered_within(ANSWER_FRESH_SECONDS):
            client.version()
        scheduler.pass_over(pool, now=clock.now())
    except (ClusterUnavailable, ClusterRejected, QuotaExceeded, OperationalError) as error:
        if is_away(error):
            raise
        logger.info("pass.put_off", extra={"pool": str(pool), "error": str(error)})


@task(name="controller.estimate_starts")
def estimate_starts(**_future: Any) -> None:
    """Store start estimates for queued workloads, to measure their accuracy later."""
    with leases.periodic("estimates", seconds=LEASE_SECONDS) as ours:
        if ours:
            forecasts.estimate_starts(now=clock.now())


@task(name="controller.keep_fences")
def keep_fences(**_future: Any) -> None:
    """Keep every team's ResourceQuota at the limits of its quotas, and the portal's own rights in every namespace;
    skipped while the cluster is unavailable.
    """
    with leases.periodic("fences", seconds=LEASE_SECONDS) as ours:
        if ours:
            try:
                access.keep_bindings(get_client())
                resource_quotas.keep_in_step(get_client(), now=clock.now())
            except (ClusterUnavailable, ClusterRejected) as error:
                logger.warning("fences.put_off", extra={"error": str(error)})


@task(name="controller.settle_usage")
def settle_usage(**_future: Any) -> None:
    """Post accrued usage to the ledger."""
    with leases.periodic("settle", seconds=LEASE_SECONDS) as ours:
        if ours:
            settle_due(now=clock.now())


@task(name=CLOSE_TASK)
def close_team(*, team_id: str, **_future: Any) -> None:
    """Go on with closing one team."""
    team = Team.objects.filter(public_id=UUID(team_id)).first()
    if team is not None:
        closing.go_on(team=team, now=clock.now())


@task(name="controller.close_teams")
def close_teams(**_future: Any) -> None:
    """Send a hint about every team that is being closed: one that fails keeps none of the others from going on."""
    with leases.periodic("close-teams", seconds=CLOSING_LEASE_SECONDS) as ours:
        if ours:
            for team_id in closing.to_go_on_with().values_list("public_id", flat=True):
                wakeups.send_hint(CLOSE_TASK, {"team_id": str(team_id)})


@task(name="controller.collect_garbage")
def collect_garbage(**_future: Any) -> None:
    """Delete the objects of workloads that have ended, logs past their retention, and rows of what has long gone."""
    with leases.periodic("garbage", seconds=LEASE_SECONDS) as ours:
        if ours:
            now = clock.now()
            workload_logs.expire(now=now)
            workload_logs.expire_beyond(now=now)
            retention.forget(now=now)
            decisions.expire(now=now, keep=timedelta(days=PlatformSettings.current().log_retention_days))
            # Last: a slow cluster may use up the whole lease.
            garbage.delete_ended(get_client(), now=now)
