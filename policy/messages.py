"""Findings in plain sentences with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from policy import budgets, ceilings
from policy.backfill import Delayed
from policy.findings import BUDGET, Finding
from policy.free_capacity import PoolInTime
from policy.node_resources import TOO_LARGE, HostBlocks, wants
from policy.ordering import TeamQueue, hidden_ahead
from policy.pool_snapshot import Waiter
from policy.preemption import victims
from policy.verdicts import Evidence, Outcome, PreemptionCause, Verdict
from workloads.podrequests import OTHERS, PODS, count_of, said_of, told_of

Sentence = Callable[["Messages", TeamQueue, Waiter, Finding], str]

_DELAYED: Mapping[Delayed, str] = MappingProxyType(
    {
        Delayed.AHEAD: "one that comes before it",
        Delayed.OWN: "one of team {team} that came first and waits for the team's guaranteed quota",
        Delayed.ELDER: "one that has waited for more than an hour for its team's guaranteed quota",
    }
)
MICRO_USD = "micro-USD"
BESIDE = ("cpu", "memory", "ephemeral_storage")
"""The request's field for each number in `Waiter.beside`."""
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "capacity-type": "capacity",
        "no-quota": "flavor",
        "largest-block": "gpus_per_replica",
        **dict(zip(TOO_LARGE, BESIDE, strict=True)),
    }
)
"""The request's field at fault, by rule."""


class Messages:
    """Makes verdicts of one pool; the numbers are those of the moment in which each was judged."""

    __slots__ = ("_bare", "_evidence", "_flavor", "_plain", "_pool", "_what")

    def __init__(self, pool: PoolInTime) -> None:
        self._pool = pool
        self._flavor = pool.snapshot.flavor.name
        self._what = f"{self._flavor} ({pool.snapshot.capacity_type})"
        self._plain = pool.snapshot.flavor.resource == PODS
        """Whether it is about pods that ask for no GPU: then units are nothing that people count."""
        self._evidence: dict[tuple[str, int], Evidence] = {}
        self._bare: dict[tuple[str, bool], Verdict] = {}

    def verdict(self, line: TeamQueue, waiter: Waiter, finding: Finding, ahead: int) -> Verdict:
        """The finding with its sentence and its numbers; `ahead` is how many before it wait."""
        return self._verdict(
            finding,
            message=_SENTENCES[finding.rule](self, line, waiter, finding),
            evidence=self._before(line, waiter, finding, ahead),
        )

    def bare(self, finding: Finding) -> Verdict:
        """The same without the sentence and the numbers, which cost more than finding it."""
        if finding.chosen:
            return self._verdict(finding, message="", evidence=())
        # A pass has thousands of them and few different ones.
        key = (finding.rule, finding.backfilled)
        known = self._bare.get(key)
        if known is None:
            known = self._bare[key] = self._verdict(finding, message="", evidence=())
        return known

    def _verdict(self, finding: Finding, *, message: str, evidence: tuple[Evidence, ...]) -> Verdict:
        rule = finding.rule
        return Verdict(
            outcome=finding.outcome,
            reason=finding.reason,
            message=message,
            rule=rule,
            evidence=evidence,
            field=FIELDS.get(rule, ""),
            victims=victims(self._pool, finding.chosen) if finding.chosen else (),
            lent=rule == "headroom",
            backfilled=finding.backfilled,
        )

    def _before(self, line: TeamQueue, waiter: Waiter, finding: Finding, ahead: int) -> tuple[Evidence, ...]:
        """The numbers by which it was judged, in which it does not count itself, admitted or not."""
        holding = self._pool.holdings.get(waiter.id) if finding.outcome is Outcome.ADMIT else None
        if holding is None:
            return self._numbers(line, waiter, finding, ahead)
        room = self._pool.room
        room.release(holding)
        numbers = self._numbers(line, waiter, finding, ahead)
        room.take(holding)
        return numbers

    def _numbers(self, line: TeamQueue, waiter: Waiter, finding: Finding, ahead: int) -> tuple[Evidence, ...]:
        room, flavor = self._pool.room, self._flavor
        if finding.rule in ceilings.NUMBER:
            return self._ceiling(line, waiter, ceilings.NUMBER[finding.rule])
        if finding.rule == BUDGET.rule:
            return self._money(line, waiter, finding)
        if self._plain:
            return tuple(self._beside(waiter, finding))
        numbers = [self._number("requested", waiter.units, flavor)]
        if line.place >= 0:
            tree, place = room.tree, line.place
            numbers += [
                self._number("guaranteed", tree.guaranteed[place], flavor),
                self._number("used", tree.used[place], flavor),
                self._number("borrowed", tree.borrowed_at(place), flavor),
                self._number("available", tree.available_at(place), flavor),
            ]
        blocks = room.blocks
        numbers += [
            self._number("free", blocks.free_total, flavor),
            self._number("largest_free_block", blocks.largest_free, flavor),
            self._number("ahead", ahead, "workloads"),
        ]
        if blocks.unopened:
            numbers.append(self._number("provisionable", blocks.provisionable, flavor))
        numbers += self._beside(waiter, finding)
        if finding.rule == "largest-block":
            numbers.append(self._number("largest_block", self._pool.snapshot.largest_block, flavor))
        if finding.longest:
            numbers.append(self._number("longest_time_limit", finding.longest, "seconds"))
        return tuple(numbers)

    def _beside(self, waiter: Waiter, finding: Finding) -> list[Evidence]:
        """The numbers of CPU, memory or storage, where that decided."""
        if finding.rule in TOO_LARGE:
            number = TOO_LARGE.index(finding.rule)
            left = self._pool.reach.most(waiter.units_each, waiter.beside, number)
        else:
            blocks = self._pool.room.blocks
            if finding.rule != "blocks" or not isinstance(blocks, HostBlocks):
                return []
            short = blocks.short(waiter.units_each, waiter.pods, waiter.beside)
            if short is None or OTHERS[short[0]] == PODS:
                return []
            number, _, left = short
        unit = "millicores" if number == 0 else "bytes"
        return [
            self._number(f"requested_{BESIDE[number]}", waiter.beside[number], unit),
            self._number(f"largest_free_{BESIDE[number]}", left, unit),
        ]

    def _ceiling(self, line: TeamQueue, waiter: Waiter, number: int) -> tuple[Evidence, ...]:
        name, unit = (*BESIDE, "pods")[number], ("millicores", "bytes", "bytes", "pods")[number]
        return (
            self._number(f"requested_{name}", waiter.most[number], unit),
            self._number(f"held_{name}", self._pool.amounts[line.index][number], unit),
            self._number(f"ceiling_{name}", line.facts.ceilings[number] or 0, unit),
        )

    def _money(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> tuple[Evidence, ...]:
        need, budget = self._pool.need(line, waiter), line.facts.budget
        numbers = [
            self._number("needed_to_start", need.least, MICRO_USD),
            self._number("needed_at_time_limit", need.whole, MICRO_USD),
            self._number("budget_left", self._pool.money[line.index], MICRO_USD),
            self._number("budget", budget.amount if budget else 0, MICRO_USD),
        ]
        if finding.longest:
            numbers.append(self._number("longest_time_limit", finding.longest, "seconds"))
        return tuple(numbers)

    def _number(self, fact: str, value: int, unit: str) -> Evidence:
        # A pass has thousands of them and few different ones.
        key = (fact, value)
        known = self._evidence.get(key)
        if known is None:
            known = self._evidence[key] = Evidence(fact, value, unit)
        return known

    def no_gpu(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return f"This {waiter.noun} asks for no GPU."

    def capacity_type(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        flavor = self._pool.snapshot.flavor
        offered = ", ".join(sorted(flavor.capacity)) or "none"
        return f"Flavor {flavor.name} has no capacity type {self._pool.snapshot.capacity_type}; it has: {offered}."

    def no_quota(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return f"Team {waiter.team} has no quota for {self._what}."

    def largest_block(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return f"No node can hold {waiter.units_each} {self._what} in one pod. {self._pool.snapshot.exists}"

    def largest_host(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        number = TOO_LARGE.index(finding.rule)
        most = self._pool.reach.most(waiter.units_each, waiter.beside, number)
        asked = said_of(OTHERS[number], waiter.beside[number])
        beside = "without GPUs" if self._plain else f"beside {waiter.units_each} {self._what}"
        return f"No node can hold {asked} {beside} in one pod; the most is {told_of(OTHERS[number], most)}."

    def nodes_unseen(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return f"Whether a node can hold {waiter.units_each} {self._what} is not known yet: the cluster's nodes are being listed."

    def queue_stopped(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return f"The queue of team {line.slug} is stopped: {line.facts.stopped.rstrip('.')}."

    def max_quota(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        tree = self._pool.room.tree
        own, most = tree.guaranteed[line.place], tree.ceiling[line.place]
        borrowed = max(0, most - own)
        parts = f"{min(own, most)} of its own and {borrowed} borrowed" if borrowed else "it can borrow none"
        return (
            f"This {waiter.noun} needs {waiter.units} {self._what}; team {line.slug} may use {most} at most: {parts}. "
            f"Ask for more quota or for fewer GPUs."
        )

    def max_ceiling(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        number = ceilings.NUMBER[finding.rule]
        most = ceilings.told(number, line.facts.ceilings[number] or 0)
        return (
            f"This {waiter.noun} needs {ceilings.told(number, waiter.most[number])}; team {line.slug} may hold {most} at "
            "most. Ask for less, or a quota manager for a higher ceiling."
        )

    def ceiling(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        number = ceilings.NUMBER[finding.rule]
        held, most = self._pool.amounts[line.index][number], line.facts.ceilings[number] or 0
        return (
            f"Team {line.slug} holds {count_of(OTHERS[number], held)} of {ceilings.told(number, most)} that it may hold; "
            f"this {waiter.noun} needs {count_of(OTHERS[number], waiter.most[number])}."
        )

    def budget(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        need, facts = self._pool.need(line, waiter), line.facts.budget
        if facts is None:
            return ""
        left = budgets.usd(self._pool.money[line.index])
        has = f"Team {line.slug} has {left} left of its budget of {budgets.usd(facts.amount)}"
        least = budgets.usd(need.least)
        if waiter.seconds is None:
            needs = f"this {waiter.noun} needs {least}, an hour at its most replicas"
        else:
            needs = (
                f"this {waiter.noun} needs {least} to start and {budgets.usd(need.whole)} for its time limit"
            )
        if facts.renews and need.least <= facts.amount:
            when = f"It starts when others give enough back, or on {budgets.moment(facts.ends_at)}, when the budget begins anew."
        elif need.least <= facts.amount:
            when = (
                f"It starts when others give enough back; the budget ends on {budgets.moment(facts.ends_at)}."
            )
        else:
            when = "The whole budget does not pay for it. Ask for fewer GPUs or for spot, or a quota manager for more."
        return f"{has}; {needs}. {when}"

    def max_of_user(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return (
            f"This {waiter.noun} needs {waiter.units} {self._what}; one member of team {line.slug} may use "
            f"{line.facts.user_limit} at most. Ask for fewer GPUs."
        )

    def max_time_limit(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return (
            f"This {waiter.noun} may run for {waiter.seconds} s; team {line.slug} allows at most "
            f"{line.facts.max_time_limit_seconds} s on {self._what}. Ask for a shorter time limit."
        )

    def user_limit(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        held = self._pool.held_by.get((line.slug, waiter.owner), 0)
        return (
            f"Its owner uses {held} of the {line.facts.user_limit} {self._what} that one member of team "
            f"{line.slug} may use; this {waiter.noun} needs {waiter.units}."
        )

    def beyond(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        hidden = hidden_ahead(self._pool.snapshot, waiter)
        return (
            f"{hidden} of team {line.slug} wait ahead of this {waiter.noun} behind the first of the queue, which alone are "
            "looked at now."
        )

    def quota(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        tree, place = self._pool.room.tree, line.place
        used, own = tree.used[place], tree.guaranteed[place]
        available, left = tree.available_at(place), max(0, own - used)
        uses = f"Team {line.slug} uses {used} of its {own} {self._what}"
        needs = f"this {waiter.noun} needs {waiter.units}."
        if available < left:
            but = f"all but {available}" if available > 0 else "all"
            return f"{uses}; of the {left} left, other teams have borrowed {but}; {needs}"
        more = available - left
        return f"{uses} and {f'can borrow {more} more' if more > 0 else 'can borrow none now'}; {needs}"

    def cards(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        card, room = self._pool.snapshot.card, self._pool.room
        name = card.card if card else ""
        more = max(0, room.cards) // max(1, room.per_unit)
        whole = card.total // max(1, card.per_unit) if card else 0
        if more:
            had = f"Only {more} of {whole} {self._flavor} can be had now"
        else:
            had = "The only one is in use" if whole == 1 else f"All {whole} {self._flavor} are in use"
        return (
            f"{had}: work on other flavors of the same {name} cards counts too. "
            f"This {waiter.noun} needs {waiter.units}."
        )

    def blocks(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        blocks = self._pool.room.blocks
        if isinstance(blocks, HostBlocks):
            short = blocks.short(waiter.units_each, waiter.pods, waiter.beside)
            if short is not None:
                return self._short_beside(blocks, waiter, *short)
        if self._plain:
            return f"This {waiter.noun} asks for no GPU, and no node takes such pods now."
        shape = "on one node" if waiter.pods == 1 else f"in {waiter.pods} pods of {waiter.units_each} at once"
        needs = f"This {waiter.noun} needs {waiter.units_each * waiter.pods} {self._what} {shape}"
        more = f"; new nodes can bring {blocks.provisionable}" if blocks.unopened else ""
        if not blocks.free_total:
            return f"{needs}; all are in use{more}."
        free = f"{blocks.free_total} {'is' if blocks.free_total == 1 else 'are'} free"
        return f"{needs}; {free}, at most {blocks.largest_free} on one node{more}."

    def _short_beside(self, blocks: HostBlocks, waiter: Waiter, number: int, node: str, left: int) -> str:
        """Units are free, and something else on their nodes is not."""
        name = OTHERS[number]
        asked = wants(waiter.beside)[number]
        what = "a place for a pod" if name == PODS else said_of(name, asked)
        beside = "on one node" if self._plain else f"on a node with {waiter.units_each} {self._what} free"
        if waiter.pods == 1 or left < asked:
            has = f"{node} has {told_of(name, left)} left" if node else "no such node has any left"
            return f"This {waiter.noun} needs {what} {beside}; {has}."
        room = blocks.pods(waiter.units_each, waiter.beside)
        return f"This {waiter.noun} needs {what} {beside} for each of {waiter.pods} pods at once; there is room for {room}."

    def leaving(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        grace = self._pool.snapshot.rules.grace_seconds
        return f"Others are being stopped already; this {waiter.noun} takes their place within {grace} s."

    def preemption(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        lent = sum(cause is PreemptionCause.IN_COHORT_RECLAMATION for _, cause in finding.chosen)
        lower = len(finding.chosen) - lent
        parts = []
        if lent:
            parts.append(f"{lent} of other teams on GPUs that are guaranteed to team {line.slug}")
        if lower:
            parts.append(f"{lower} of lower priority in team {line.slug}")
        grace = self._pool.snapshot.rules.grace_seconds
        return f"This {waiter.noun} starts within {grace} s, once others have been stopped for it: {', '.join(parts)}."

    def backfill(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        whom = _DELAYED[finding.delayed].format(team=line.slug)
        begin = f"There is room for this {waiter.noun}, but it is kept for {whom}"
        if finding.longest:
            return f"{begin}. With a time limit of {finding.longest} s at most it is done before that one starts, and need not wait."
        return f"{begin}, whatever its time limit."

    def fits(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        tree, place = self._pool.room.tree, line.place
        used, borrowed = tree.used[place], tree.borrowed_at(place)
        if borrowed:
            return f"Team {line.slug} will use {used} {self._what}: {used - borrowed} of its own and {borrowed} borrowed."
        return f"Team {line.slug} will use {used} of its {tree.guaranteed[place]} {self._what}."

    def headroom(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> str:
        return (
            f"This {waiter.noun} runs on {waiter.units} {self._what} that endpoints of team {line.slug} keep in "
            f"reserve, and is stopped when they need them."
        )


_SENTENCES: Mapping[str, Sentence] = MappingProxyType(
    {
        "no-gpu": Messages.no_gpu,
        "capacity-type": Messages.capacity_type,
        "no-quota": Messages.no_quota,
        "largest-block": Messages.largest_block,
        **dict.fromkeys(TOO_LARGE, Messages.largest_host),
        "nodes-unseen": Messages.nodes_unseen,
        "queue-stopped": Messages.queue_stopped,
        "max-quota": Messages.max_quota,
        "max-of-user": Messages.max_of_user,
        "max-time-limit": Messages.max_time_limit,
        **dict.fromkeys(ceilings.ABOVE_CEILING, Messages.max_ceiling),
        **dict.fromkeys(ceilings.AT_CEILING, Messages.ceiling),
        "beyond": Messages.beyond,
        "user-limit": Messages.user_limit,
        BUDGET.rule: Messages.budget,
        "quota": Messages.quota,
        "cards": Messages.cards,
        "blocks": Messages.blocks,
        "leaving": Messages.leaving,
        "preemption": Messages.preemption,
        "backfill": Messages.backfill,
        "fits": Messages.fits,
        "headroom": Messages.headroom,
    }
)
RULES = frozenset(_SENTENCES)
"""Every step of the policy that can decide."""
