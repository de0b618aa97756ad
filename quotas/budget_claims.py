"""Where admission meets budgets: what is admitted is promised money in the transaction that claims its quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from costs.budgets.reservations import Promise, promise
from costs.errors import BudgetExceeded
from policy.budgets import need_of
from policy.pool_snapshot import PoolSnapshot
from quotas.counters import mark_due
from quotas.errors import QuotaExceeded
from workloads.models import Workload
from workloads.states import Phase, Reason


def promise_money(
    snapshot: PoolSnapshot, admitted: Iterable[Workload], *, order: Sequence[str], now: datetime
) -> None:
    """Promise each of these waiters of the snapshot, in the `order` of their turns, what it needs of its team's budget; no
    query where none of them has one. Before any quota is locked.

    Raises QuotaExceeded where the money has gone meanwhile: the pass is done again.
    """
    budgets = {team.slug: team.budget for team in snapshot.teams if team.budget is not None}
    if not budgets or not snapshot.prices:
        return
    waiters = {waiter.id: waiter for waiter in snapshot.waiters}
    starting = {str(workload.public_id): workload for workload in admitted}
    promises = []
    for name in order:
        workload = starting.get(name)
        budget = budgets.get(workload.team.slug) if workload is not None else None
        if workload is not None and budget is not None:
            need = need_of(snapshot, waiters[name], budget.ends_at, snapshot.now)
            promises.append(Promise(workload.pk, workload.team_id, need.least, need.whole))
    if not promises:
        return
    try:
        promise(promises, now=now)
    except BudgetExceeded as error:
        raise QuotaExceeded(error.message) from error


def wake_poor(team_id: int, *, now: datetime) -> None:
    """Make the pools due in which the team waits for its budget. Outside any transaction: where this is lost, the pass that
    each pool with waiters has in a minute finds it.
    """
    waiting = Workload.objects.filter(
        team=team_id, phase=Phase.QUEUED.value, reason=Reason.WAITING_FOR_BUDGET.value, flavor__isnull=False
    )
    found = set(waiting.order_by().values_list("flavor", "capacity_type").distinct())
    for flavor_id, capacity_type in sorted(found):
        mark_due(flavor_id=flavor_id, capacity_type=capacity_type, now=now)
