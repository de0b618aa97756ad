"""What a waiter could change to start sooner, each proved by the policy itself.

A changed request is judged as a new one that comes last, without the waiting original; only a shorter time limit
keeps the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quotas.arithmetic import Tree
from quotas.estimates import Estimate, estimate
from quotas.policy import plan
from quotas.supply import NEW, Account, Supply, Waiter
from quotas.verdicts import Verdict

MOST = 6
SHORTEST_TIME_LIMIT = 60
"""Seconds; nobody is advised to ask for less."""


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
    """At most six changes, each of which starts it now or at an earlier p90 than it has.

    `time_limit_seconds` is the whole limit of which the waiter's `seconds` are left; None where nothing is used up.
    """
    known = plan(supply)
    verdict = known.verdicts[waiter_id]
    if verdict.admitted:
        return ()
    waiter = next(each for each in supply.waiters if each.id == waiter_id)
    base = estimate(supply, waiter_id, given=known)
    found: list[Lever] = []
    for change, changed in _changes(supply, waiter, verdict, alternatives, time_limit_seconds):
        if len(found) == MOST:
            break
        lever = _judged(change, changed, waiter_id if "time_limit_seconds" in change else NEW, base)
        if lever is not None and not any(_same_field(lever, each) for each in found):
            found.append(lever)
    return tuple(found)


def with_quota(supply: Supply, waiter: Waiter, more: int, *, lend: bool) -> Supply:
    """The Supply with `more` nominal quota of the waiter's team, which its cohort may borrow or not."""
    names = {each.name: each for each in supply.accounts}
    account = names[next(team.account for team in supply.teams if team.slug == waiter.team)]
    if not lend or account.parent is None:
        return replace(supply, accounts=_kept(supply.accounts, account, more))
    grown = {account.name}
    parent: str | None = account.parent
    while parent is not None:
        grown.add(parent)
        parent = names[parent].parent
    accounts = tuple(
        replace(
            each,
            guaranteed=each.guaranteed + more,
            ceiling=each.ceiling + more,
            # What a root has is local by definition.
            local=each.local + (more if each.parent is None else 0),
        )
        if each.name in grown
        else each
        for each in supply.accounts
    )
    return replace(supply, accounts=accounts)


def _kept(accounts: tuple[Account, ...], account: Account, more: int) -> tuple[Account, ...]:
    """With more local quota, so that less of what the team uses is used of its cohort."""
    tree = Tree(accounts)
    if account.parent is not None:
        before = max(0, account.used - account.local)
        after = max(0, account.used - account.local - more)
        tree.take(account.parent, after - before)
    grown = []
    for each in accounts:
        used = tree.used[tree.place(each.name)]
        extra = more if each is account else 0
        grown.append(
            replace(
                each,
                guaranteed=each.guaranteed + extra,
                local=each.local + extra,
                ceiling=each.ceiling + extra,
                used=used,
            )
        )
    return tuple(grown)


Change = tuple[Mapping[str, int | str], Supply]


def _changes(
    supply: Supply,
    waiter: Waiter,
    verdict: Verdict,
    alternatives: Sequence[Alternative],
    time_limit_seconds: int | None,
) -> Iterator[Change]:
    """In the order in which they are offered; of those of one field the first that helps."""
    yield from _shorter(supply, waiter, verdict, time_limit_seconds)
    yield from _fewer(supply, waiter)
    for each in alternatives:
        yield dict(each.change), _instead(each.supply, waiter.id, waiter)
    yield from _quota(supply, waiter)


def _shorter(
    supply: Supply, waiter: Waiter, verdict: Verdict, time_limit_seconds: int | None
) -> Iterator[Change]:
    longest = [each.value for each in verdict.evidence if each.fact == "longest_time_limit"]
    if not longest or waiter.seconds is None or longest[0] >= waiter.seconds:
        return
    used_up = (time_limit_seconds or waiter.seconds) - waiter.seconds
    if longest[0] < SHORTEST_TIME_LIMIT:
        return
    expected = None if waiter.expected_seconds is None else min(waiter.expected_seconds, longest[0])
    shorter = replace(waiter, seconds=longest[0], expected_seconds=expected)
    waiters = tuple(shorter if each.id == waiter.id else each for each in supply.waiters)
    yield {"time_limit_seconds": used_up + longest[0]}, replace(supply, waiters=waiters)


def _fewer(supply: Supply, waiter: Waiter) -> Iterator[Change]:
    """Half the GPUs of each replica, and half of that; half the replicas, where all of them start at once."""
    each = waiter.units_each
    replicas = waiter.units // each if each else 0
    if replicas * each != waiter.units:
        return
    fewer = each // 2
    while fewer:
        changed = replace(waiter, units=replicas * fewer, units_each=fewer)
        yield {"gpus_per_replica": fewer}, _instead(supply, waiter.id, changed)
        fewer //= 2
    less = replicas // 2 if replicas == waiter.pods else 0
    while less:
        changed = replace(waiter, units=less * each, pods=less)
        yield {"replicas": less}, _instead(supply, waiter.id, changed)
        less //= 2


def _quota(supply: Supply, waiter: Waiter) -> Iterator[Change]:
    """So much more nominal quota that it would start now, whether the cohort may borrow it or not."""
    names = {team.slug: team.account for team in supply.teams}
    tree = Tree(supply.accounts)
    if waiter.team not in names or names[waiter.team] not in tree:
        return
    place = tree.place(names[waiter.team])
    least = waiter.units - tree.available_at(place)
    own = tree.used[place] + waiter.units - tree.guaranteed[place]
    for more in sorted({least, own}):
        if more <= 0:
            continue
        lent, kept = (
            _instead(with_quota(supply, waiter, more, lend=lend), waiter.id, waiter) for lend in (True, False)
        )
        if plan(lent).verdicts[NEW].admitted and plan(kept).verdicts[NEW].admitted:
            yield {"ask_for_quota": more}, kept


def _instead(supply: Supply, waiter_id: str, changed: Waiter) -> Supply:
    """A new request in place of the waiting one, last in the line of this pool."""
    others = tuple(each for each in supply.waiters if each.id != waiter_id)
    last = max((each.sequence for each in others), default=0) + 1
    new = replace(changed, id=NEW, queued_at=supply.now, sequence=last)
    return replace(supply, waiters=(*others, new))


def _judged(change: Mapping[str, int | str], changed: Supply, waiter_id: str, base: Estimate) -> Lever | None:
    """The lever, where it is strictly better than waiting as it is."""
    known = plan(changed)
    verdict = known.verdicts[waiter_id]
    found = estimate(changed, waiter_id, given=known)
    better = found.p90 is not None and (base.p90 is None or found.p90 < base.p90)
    return Lever(change, verdict, found) if verdict.admitted or better else None


def _same_field(lever: Lever, other: Lever) -> bool:
    if set(lever.change) & {"flavor", "capacity"}:
        return lever.change == other.change
    return set(lever.change) == set(other.change)
