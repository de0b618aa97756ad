"""Where admission meets budgets: what is admitted is promised money in the transaction that claims its quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from costs.budgets.reservations import Promise, promise
from policy.budgets import need_of
from policy.pool_snapshot import PoolSnapshot
from workloads.models import Workload


def promise_money(
    snapshot: PoolSnapshot, admitted: Iterable[Workload], *, order: Sequence[str], now: datetime
) -> None:
    """Promise each of these waiters of the snapshot, in the `order` of their turns, what it needs of its team's budget; no
    query where none of them has one. Before any quota is locked.

    Raises BudgetExceeded where the money has gone meanwhile: the pass is done again.
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
    if promises:
        promise(promises, now=now)
