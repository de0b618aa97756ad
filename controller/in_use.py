"""Who holds the units of a pool, as far as a team may know it."""

from __future__ import annotations

from dataclasses import dataclass

from policy.pool_snapshot import PoolSnapshot
from quotas.decisions import ANOTHER_TEAM


@dataclass(frozen=True, slots=True)
class InUse:
    """A workload that holds units; another team's has no id, and a team name only if that team shows it."""

    id: str | None
    team: str
    units: int


def in_use(snapshot: PoolSnapshot, team: str, named: frozenset[str]) -> tuple[InUse, ...]:
    """The holders of the pool, the team's own first, then the largest; what lives on lent headroom holds none of its own."""
    held = [holder for holder in snapshot.holders if not holder.lent]
    held.sort(key=lambda holder: (holder.team != team, -holder.units, holder.id))
    return tuple(
        InUse(
            holder.id if holder.team == team else None,
            holder.team if holder.team == team or holder.team in named else ANOTHER_TEAM,
            holder.units,
        )
        for holder in held
    )
