"""What a waiter could change to start sooner, each proved by the policy itself.

A changed request is judged as a new one that comes last, without the waiting original; only a shorter time limit
keeps the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from policy import ceilings
from policy.arithmetic import Tree
from policy.estimates import TOO_LONG, Estimate, estimate, estimate_now
from policy.findings import BUDGET
from policy.judge import judge
from policy.messages import BESIDE
from policy.node_resources import TOO_LARGE
from policy.pool_snapshot import NEW, Account, Beside, PoolSnapshot, TeamFacts, Waiter
from policy.verdicts import CyclePlan, Outcome, Verdict
from workloads.podrequests import OTHERS, quantity_of

MOST = 6
RUNS_MOST = 3
"""Changes that do not start it now for which the queue is run forward."""
EFFORT_MOST = 10_000
"""Looks at waiters in such a run, some 50 ms of work; what would need more is not found out."""
MINUTE = 60
SHORTEST_TIME_LIMIT = MINUTE
"""Seconds; no advice asks for less."""
MINUTES_FROM = 10 * MINUTE
"""From here on a time limit is offered in whole minutes, at least one below the longest that fits: to the second it
would not fit any more by the time a user has read it."""


CENT = 10_000
"""Micro-USD; nobody is asked for a part of one."""
STOPS_MOST = 2
"""Own runs whose end is tried: first those that alone hold enough, of them the one that loses least."""
SUSPEND = "suspend"
RUN = "run"
"""What is called so can be suspended."""
BESIDE_MOST = 3
"""Smaller requests of CPU, memory and storage that are tried, the largest first."""
SMALLEST = (100, 256 * 1024**2, 256 * 1024**2)
"""No advice asks for less CPU, memory or storage in a pod; offers are multiples of it."""
WHOLE_GIB_FROM = 4 * 1024**3
ShareOf = Callable[[int], Beside]
"""What a pod of so many units asks for besides them, where the request leaves some of it to the portal."""


@dataclass(frozen=True)
class Alternative:
    """Another pool that the waiter could ask for, with the request's fields that lead to it, and what a pod would ask
    for besides units there; None for the same.
    """

    change: Mapping[str, str]
    snapshot: PoolSnapshot
    beside: Beside | None = None


@dataclass(frozen=True)
class Lever:
    """Fields of the request to change, and what would be answered then."""

    change: Mapping[str, int | str]
    verdict: Verdict
    estimate: Estimate
    lost_seconds: int = 0
    """What the run that has to leave for it loses."""


@dataclass(frozen=True)
class Levers:
    """`complete`: whether every change was judged to the end; else there may be more that would help."""

    levers: tuple[Lever, ...]
    complete: bool


def levers(
    snapshot: PoolSnapshot,
    waiter_id: str,
    alternatives: Sequence[Alternative] = (),
    *,
    time_limit_seconds: int | None = None,
    owner: str | None = None,
    share: ShareOf | None = None,
    cycle_plan: CyclePlan | None = None,
    base: Estimate | None = None,
) -> Levers:
    """At most six changes, each of which starts it now or at an earlier p90 than it has.

    `time_limit_seconds` is the whole limit of which the waiter's `seconds` are left; None where nothing is used up.
    `owner` is the user who would make the new request; None for the same. `share` says what fewer units in a pod come
    with; None where that does not depend on them. `cycle_plan` and `base` are the plan and the waiter's
    estimate of this very snapshot, for callers that have them.
    """
    verdict = cycle_plan.verdicts[waiter_id] if cycle_plan else judge(snapshot, waiter_id)
    if verdict.admitted:
        return Levers((), complete=True)
    waiter = next(waiting for waiting in snapshot.waiters if waiting.id == waiter_id)
    afresh = _afresh(waiter, time_limit_seconds, owner)
    elsewhere = [LeverChange(dict(other.change), _there(other, waiter.id, afresh)) for other in alternatives]
    changes = [
        *_in_its_place(snapshot, waiter, verdict, time_limit_seconds),
        *_without_own(snapshot, waiter, owner or waiter.owner),
        *_less_beside(snapshot, afresh, verdict),
        *_below_ceiling(snapshot, afresh, verdict),
        *_fewer(snapshot, afresh, share),
        *elsewhere,
        *_quota(snapshot, waiter),
    ]
    levers_by_field: dict[str, Lever] = {}
    later: list[tuple[LeverChange, Verdict]] = []
    for change in changes:
        answer = judge(change.snapshot, change.waiter_id)
        if answer.admitted and change.field not in levers_by_field:
            now = estimate_now(change.snapshot)
            levers_by_field[change.field] = Lever(change.fields, answer, now, change.lost_seconds)
        elif answer.outcome is Outcome.WAIT:
            later.append((change, answer))
    known = base or estimate(snapshot, waiter_id, cycle_plan=cycle_plan)
    horizon = None if known.p90 is None else known.p90 - snapshot.now - 1
    runs, complete = 0, True
    for change, answer in later:
        if change.field in levers_by_field:
            continue
        # Those to suspend have a bound of their own.
        if runs == RUNS_MOST and change.field != SUSPEND:
            complete = False
            break
        runs += change.field != SUSPEND
        start = estimate(change.snapshot, change.waiter_id, horizon=horizon, effort=EFFORT_MOST)
        complete = complete and start.unknown_because != TOO_LONG
        if start.p90 is not None and (known.p90 is None or start.p90 < known.p90):
            levers_by_field[change.field] = Lever(change.fields, answer, start, change.lost_seconds)
    found = [levers_by_field.pop(change.field) for change in changes if change.field in levers_by_field]
    return Levers(tuple(found[:MOST]), complete)


def _afresh(waiter: Waiter, time_limit_seconds: int | None, owner: str | None) -> Waiter:
    """The waiter as a new submission: with the whole time limit, of which it may have used a part."""
    made = replace(waiter, owner=owner or waiter.owner)
    if not waiter.seconds or time_limit_seconds is None or time_limit_seconds <= waiter.seconds:
        return made
    expected = waiter.expected_seconds
    if expected is not None:
        expected = expected * time_limit_seconds // waiter.seconds
    return replace(made, seconds=time_limit_seconds, expected_seconds=expected)


def with_quota(snapshot: PoolSnapshot, waiter: Waiter, more: int, *, lend: bool) -> PoolSnapshot:
    """The snapshot with `more` nominal quota of the waiter's team, which its cohort may borrow or not."""
    names = {member.name: member for member in snapshot.accounts}
    account = names[next(team.account for team in snapshot.teams if team.slug == waiter.team)]
    if not lend or account.parent is None:
        return replace(snapshot, accounts=_kept(snapshot.accounts, account, more))
    grown = {account.name}
    parent: str | None = account.parent
    while parent is not None:
        grown.add(parent)
        parent = names[parent].parent
    ceilings: dict[str, int] = {}
    return replace(
        snapshot,
        accounts=tuple(
            replace(
                member,
                guaranteed=member.guaranteed + (more if member.name in grown else 0),
                # What a root has is local by definition.
                local=member.local + (more if member.name in grown and member.parent is None else 0),
                ceiling=_raised(member, names, grown, more, ceilings),
            )
            for member in snapshot.accounts
        ),
    )


def _raised(
    account: Account, names: Mapping[str, Account], grown: set[str], more: int, known: dict[str, int]
) -> int:
    """The account's ceiling after the `grown` ancestors get `more`; also for others whose ceiling is their parent's."""
    if account.name not in known:
        above = 0
        if account.parent is not None:
            parent = names[account.parent]
            free = account.ceiling == account.local + parent.ceiling
            above = _raised(parent, names, grown, more, known) - parent.ceiling if free else 0
        known[account.name] = account.ceiling + (more if account.name in grown else above)
    return known[account.name]


def _kept(accounts: tuple[Account, ...], account: Account, more: int) -> tuple[Account, ...]:
    """The accounts with more local quota for one of them, so that less of its use counts in its cohort."""
    tree = Tree(accounts)
    if account.parent is not None:
        before = max(0, account.used - account.local)
        after = max(0, account.used - account.local - more)
        tree.take(account.parent, after - before)
    grown = []
    for member in accounts:
        used = tree.used[tree.place(member.name)]
        extra = more if member is account else 0
        grown.append(
            replace(
                member,
                guaranteed=member.guaranteed + extra,
                local=member.local + extra,
                ceiling=member.ceiling + extra,
                used=used,
            )
        )
    return tuple(grown)


@dataclass(frozen=True)
class LeverChange:
    """The snapshot as it is after a change of the request, and the waiter's id in it."""

    fields: Mapping[str, int | str]
    snapshot: PoolSnapshot
    waiter_id: str = NEW
    lost_seconds: int = 0

    @property
    def field(self) -> str:
        """What one lever is enough for: a field, or a pool."""
        pool = [f"{name} {value}" for name, value in self.fields.items() if name in {"flavor", "capacity"}]
        return ", ".join(pool or self.fields)


def _in_its_place(
    snapshot: PoolSnapshot, waiter: Waiter, verdict: Verdict, time_limit_seconds: int | None
) -> Iterator[LeverChange]:
    """Changes that keep its place."""
    yield from _shorter(snapshot, waiter, verdict, time_limit_seconds)
    yield from _more_money(snapshot, waiter, verdict)


def _shorter(
    snapshot: PoolSnapshot, waiter: Waiter, verdict: Verdict, time_limit_seconds: int | None
) -> Iterator[LeverChange]:
    longest = next(
        (evidence.value for evidence in verdict.evidence if evidence.fact == "longest_time_limit"), None
    )
    if longest is None or waiter.seconds is None or longest >= waiter.seconds:
        return
    used_up = (time_limit_seconds or waiter.seconds) - waiter.seconds
    limit = used_up + longest
    if limit >= MINUTES_FROM:
        limit = (limit - MINUTE) // MINUTE * MINUTE
    left = limit - used_up
    if left < SHORTEST_TIME_LIMIT:
        return
    expected = None if waiter.expected_seconds is None else min(waiter.expected_seconds, left)
    shorter = replace(waiter, seconds=left, expected_seconds=expected)
    waiters = tuple(shorter if waiting.id == waiter.id else waiting for waiting in snapshot.waiters)
    yield LeverChange({"time_limit_seconds": limit}, replace(snapshot, waiters=waiters), waiter.id)


def _more_money(snapshot: PoolSnapshot, waiter: Waiter, verdict: Verdict) -> Iterator[LeverChange]:
    """The change to as much on top of its team's budget as its whole time limit needs, or an endpoint's hour; it keeps
    its place.
    """
    if verdict.rule != BUDGET.rule:
        return
    known = {evidence.fact: evidence.value for evidence in verdict.evidence}
    more = -(-(known["needed_at_time_limit"] - known["budget_left"]) // CENT) * CENT
    if more > 0:
        yield LeverChange({"ask_for_budget": more}, with_money(snapshot, waiter.team, more), waiter.id)


def _without_own(snapshot: PoolSnapshot, waiter: Waiter, owner: str) -> Iterator[LeverChange]:
    """Suspending a run of the owner's in the same team, which then leaves within the grace period and does not come back by
    itself; the waiter keeps its place.
    """
    own = [
        holder
        for holder in snapshot.holders
        if (holder.team, holder.owner, holder.noun) == (waiter.team, owner, RUN)
        and not holder.leaving
        and not holder.lent
        # One without units of this pool counts for its team's ceilings alone.
        and holder.units
    ]
    own.sort(key=lambda run: (run.units < waiter.units, run.lost_seconds, run.units, run.id))
    for run in own[:STOPS_MOST]:
        stopped = replace(run, leaving=True, preemptible=False)
        holders = tuple(stopped if holder is run else holder for holder in snapshot.holders)
        yield LeverChange({SUSPEND: run.id}, replace(snapshot, holders=holders), waiter.id, run.lost_seconds)


def with_money(snapshot: PoolSnapshot, team: str, more: int) -> PoolSnapshot:
    """The snapshot with `more` micro-USD on top of the team's budget."""

    def richer(facts: TeamFacts) -> TeamFacts:
        if facts.slug != team or facts.budget is None:
            return facts
        return replace(facts, budget=replace(facts.budget, amount=facts.budget.amount + more))

    return replace(snapshot, teams=tuple(richer(facts) for facts in snapshot.teams))


def _there(alternative: Alternative, waiter_id: str, waiter: Waiter) -> PoolSnapshot:
    beside = waiter.beside if alternative.beside is None else alternative.beside
    return _instead(alternative.snapshot, waiter_id, _asking(waiter, beside))


def _less_beside(snapshot: PoolSnapshot, waiter: Waiter, verdict: Verdict) -> Iterator[LeverChange]:
    """Changes to less CPU, memory and storage: as much as a node has left beside its free units, or could ever have."""
    if verdict.rule != "blocks" and verdict.rule not in TOO_LARGE:
        return
    asked = waiter.beside
    fields_by_share = {}
    for beside in _had_beside(snapshot, waiter):
        less = tuple(
            min(want, _round(number, have))
            for number, (want, have) in enumerate(zip(asked, beside, strict=True))
        )
        fields = {
            BESIDE[number]: quantity_of(OTHERS[number], less[number])
            for number, want in enumerate(asked)
            if less[number] < want
        }
        if fields and all(
            want == have or have >= SMALLEST[number]
            for number, (want, have) in enumerate(zip(asked, less, strict=True))
        ):
            fields_by_share[less] = fields
    kept = sorted(fields_by_share, key=lambda less: _cut(asked, less))[:BESIDE_MOST]
    for less in kept:
        yield LeverChange(fields_by_share[less], _instead(snapshot, waiter.id, _asking(waiter, less)))


def _even(waiter: Waiter) -> bool:
    """Whether all its pods ask for the same, so that what they ask for together follows from one."""
    pods = waiter.most[-1] if waiter.most else 0
    return bool(waiter.beside) and all(
        each * pods == together for each, together in zip(waiter.beside, waiter.most, strict=False)
    )


def _asking(waiter: Waiter, beside: Beside) -> Waiter:
    """The waiter with pods that ask for so much besides units."""
    if not waiter.most or not _even(waiter):
        return replace(waiter, beside=beside)
    pods = waiter.most[-1]
    return replace(waiter, beside=beside, most=(*(each * pods for each in beside), pods))


def _below_ceiling(snapshot: PoolSnapshot, waiter: Waiter, verdict: Verdict) -> Iterator[LeverChange]:
    """Changes to less of what the team's ceiling is too low for, in each pod or in fewer of them: as much as is left of the
    ceiling, or as there could ever be.
    """
    number = ceilings.NUMBER.get(verdict.rule)
    if number is None or not _even(waiter):
        return
    facts = next(team for team in snapshot.teams if team.slug == waiter.team)
    ceiling, pods = facts.ceilings[number] or 0, waiter.most[-1]
    for room in (ceiling - facts.held[number], ceiling):
        if number < len(BESIDE):
            each = _round(number, max(0, room) // pods)
            if SMALLEST[number] <= each < waiter.beside[number]:
                less = (*waiter.beside[:number], each, *waiter.beside[number + 1 :])
                fields = {BESIDE[number]: quantity_of(OTHERS[number], each)}
                yield LeverChange(fields, _instead(snapshot, waiter.id, _asking(waiter, less)))
        fewer = max(0, room) * pods // waiter.most[number]
        if 0 < fewer < pods and (waiter.pods == pods or fewer >= waiter.pods):
            changed = replace(
                waiter,
                units=waiter.units * fewer // pods,
                pods=min(waiter.pods, fewer),
                most=ceilings.scaled(waiter.most, fewer, pods),
            )
            yield LeverChange({"replicas": fewer}, _instead(snapshot, waiter.id, changed))


def _had_beside(snapshot: PoolSnapshot, waiter: Waiter) -> Iterator[Beside]:
    """What a pod can have besides its units: on each node for one pod and for more, and on each kind of node
    while it is empty.
    """
    unknown = waiter.beside
    offers = [(block.free, block.left) for block in snapshot.blocks]
    for units, others in {*offers, *snapshot.hosts}:
        pods = min(waiter.pods, units // waiter.units_each) if waiter.units_each else 0
        for count in sorted({1, pods} if pods > 0 else ()):
            known = others[: len(unknown)] or unknown
            yield tuple(
                want if have is None else max(0, have) // count
                for want, have in zip(unknown, known, strict=True)
            )


def _round(number: int, amount: int) -> int:
    step = SMALLEST[number]
    if number and amount >= WHOLE_GIB_FROM:
        step = 1024**3
    return amount // step * step


def _cut(asked: Beside, less: Beside) -> tuple[Fraction, Beside]:
    """Sort key: the largest relative cut of any resource, then the amounts; the smallest key is the mildest change."""
    parts = (Fraction(want - have, want) for want, have in zip(asked, less, strict=True) if want)
    return max(parts, default=Fraction(0)), less


def _fewer(snapshot: PoolSnapshot, waiter: Waiter, share: ShareOf | None) -> Iterator[LeverChange]:
    """Changes that halve the GPUs of each replica repeatedly, or the replicas if all of them start at once."""
    units_each = waiter.units_each
    replicas = waiter.units // units_each if units_each else 0
    if replicas * units_each != waiter.units:
        return
    fewer = units_each // 2
    while fewer:
        changed = replace(waiter, units=replicas * fewer, units_each=fewer)
        if share is not None:
            changed = _asking(changed, share(fewer))
        yield LeverChange({"gpus_per_replica": fewer}, _instead(snapshot, waiter.id, changed))
        fewer //= 2
    less = replicas // 2 if replicas == waiter.pods else 0
    while less:
        most = ceilings.scaled(waiter.most, less, replicas)
        changed = replace(waiter, units=less * units_each, pods=less, most=most)
        yield LeverChange({"replicas": less}, _instead(snapshot, waiter.id, changed))
        less //= 2


def _quota(snapshot: PoolSnapshot, waiter: Waiter) -> Iterator[LeverChange]:
    """The change to as much more nominal quota as it needs to start now, whether or not the cohort may borrow it."""
    names = {team.slug: team.account for team in snapshot.teams}
    tree = Tree(snapshot.accounts)
    if waiter.team not in names or names[waiter.team] not in tree:
        return
    place = tree.place(names[waiter.team])
    least = waiter.units - tree.available_at(place)
    own = tree.used[place] + waiter.units - tree.guaranteed[place]
    for more in sorted({least, own}):
        if more <= 0:
            continue
        lent, kept = (
            _instead(with_quota(snapshot, waiter, more, lend=lend), waiter.id, waiter)
            for lend in (True, False)
        )
        if judge(lent, NEW).admitted and judge(kept, NEW).admitted:
            yield LeverChange({"ask_for_quota": more}, kept)
            return


def _instead(snapshot: PoolSnapshot, waiter_id: str, changed: Waiter) -> PoolSnapshot:
    """The snapshot with a new request in place of the waiting one, last in the queue of this pool."""
    others = tuple(waiter for waiter in snapshot.waiters if waiter.id != waiter_id)
    last = max((other.sequence for other in others), default=0) + 1
    new = replace(changed, id=NEW, queued_at=snapshot.now, sequence=last)
    return replace(snapshot, waiters=(*others, new))
