from __future__ import annotations

import random as stdlib_random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.arithmetic import Tree
from policy.judge import ahead, judge, plan, position
from policy.messages import RULES
from policy.packing import Blocks
from policy.pool_snapshot import CardFacts
from policy.verdicts import Outcome
from tests.effort import drawn
from tests.quotas.pure_world import NOW, holder, random_supply
from workloads.states import REASONS, Phase

seeds = st.integers(0, 10**6)


def applied(facts, answer):
    """What is used when everybody admitted has started, by Trees and Blocks of their own."""
    tree, blocks = Tree(facts.accounts), Blocks(facts.blocks, facts.provisionable)
    accounts = {each.slug: each.account for each in facts.teams}
    for each in facts.waiters:
        if answer.verdicts[each.id].admitted:
            assert tree.available(accounts[each.team]) >= each.units
            tree.take(accounts[each.team], each.units)
    return tree, blocks


@given(seeds, st.integers(1, 40))
@settings(max_examples=drawn(usual=100, soak=1500))
def test_nothing_is_ever_admitted_beyond_a_ceiling_a_block_or_a_card(seed, free_parts):
    card = CardFacts("a100", 7, 2, 200, free_parts)
    facts = replace(random_supply(seed, holders=12), card=card)
    answer = plan(facts)
    tree, blocks = applied(facts, answer)
    assert all(
        used <= max(ceiling, before.used)
        for used, ceiling, before in zip(tree.used, tree.ceiling, facts.accounts, strict=True)
    )
    admitted = [each for each in facts.waiters if answer.verdicts[each.id].admitted]
    assert sum(each.units for each in admitted) * card.per_unit <= free_parts
    # All gangs have their places at once, in the order of the pass and so in some order.
    for name in answer.admitted:
        each = next(w for w in admitted if w.id == name)
        assert blocks.place(each.units_each, each.pods) is not None


@given(seeds)
@settings(max_examples=drawn(usual=66, soak=1000))
def test_every_verdict_is_whole(seed):
    facts = random_supply(seed)
    answer = plan(facts)
    assert set(answer.order) == set(answer.verdicts) == {each.id for each in facts.waiters}
    for verdict in answer.verdicts.values():
        phase = Phase.ADMITTED if verdict.admitted else Phase.QUEUED
        assert verdict.reason in REASONS[phase]
        assert verdict.rule in RULES
        assert verdict.message.endswith(".")
        assert (verdict.outcome is Outcome.NEVER) == bool(verdict.field)
        assert bool(verdict.victims) == (verdict.rule == "preemption")


@given(seeds)
@settings(max_examples=drawn(usual=33, soak=500))
def test_the_same_supply_gives_the_same_plan_in_whatever_order_its_facts_come(seed):
    facts = random_supply(seed)
    random = stdlib_random.Random(seed)

    def shuffled(values):
        return tuple(random.sample(values, len(values)))

    mixed = replace(
        facts, accounts=shuffled(facts.accounts), teams=shuffled(facts.teams), blocks=shuffled(facts.blocks),
        holders=shuffled(facts.holders), waiters=shuffled(facts.waiters),
    )  # fmt: skip
    assert plan(facts) == plan(mixed)


@given(seeds)
@settings(max_examples=drawn(usual=16, soak=250))
def test_one_judgement_is_that_of_the_whole_plan(seed):
    facts = random_supply(seed, waiters=10)
    answer = plan(facts)
    for each in facts.waiters:
        assert judge(facts, each.id) == answer.verdicts[each.id]
        assert position(facts, each.id, cycle_plan=answer) == 1 + len(ahead(facts, each.id))


@given(seeds)
@settings(max_examples=drawn(usual=26, soak=400))
def test_who_is_not_told_has_the_same_verdict_without_words(seed):
    facts = random_supply(seed)
    whole, quiet = plan(facts), plan(facts, is_read=lambda each, _: each.sequence % 2 == 0)
    assert quiet.order == whole.order
    for each in facts.waiters:
        said = whole.verdicts[each.id]
        if each.sequence % 2:
            said = replace(said, message="", evidence=())
        assert quiet.verdicts[each.id] == said


@given(seeds)
@settings(max_examples=drawn(usual=66, soak=1000))
def test_more_nodes_never_make_it_worse_for_the_first_in_line(seed):
    facts = random_supply(seed, preemptible=0)
    answer = plan(facts)
    first = next((each for each in answer.order if not answer.verdicts[each].field), None)
    if first is None:
        return
    more = replace(facts, blocks=(*facts.blocks, replace(facts.blocks[0], node="zz", size=8, free=8)))
    assert plan(more).verdicts[first].admitted >= answer.verdicts[first].admitted


def in_line(each):
    return (-each.priority, each.queued_at, each.sequence)


@given(seeds)
@settings(max_examples=drawn(usual=100, soak=1500))
def test_who_is_first_is_judged_as_if_alone_while_nobody_has_waited_long(seed):
    facts = random_supply(seed)
    facts = replace(facts, waiters=tuple(replace(each, queued_at=NOW - 60) for each in facts.waiters))
    answer = plan(facts)
    first = answer.order[0]
    team = next(each.team for each in facts.waiters if each.id == first)
    lines = {each.team: each.id for each in sorted(facts.waiters, key=in_line, reverse=True)}
    # Somebody of its team who could borrow let it go first, and must not be the worse for that.
    if lines[team] != first:
        return
    alone = replace(facts, waiters=tuple(each for each in facts.waiters if each.id == first))
    assert judge(alone, first).outcome == answer.verdicts[first].outcome
    assert judge(alone, first).victims == answer.verdicts[first].victims


def earliest(facts, name):
    """When there is room for a waiter as everybody ends at the full limit; a slow walk of its own."""
    wanted = next(each for each in facts.waiters if each.id == name)
    tree, blocks = Tree(facts.accounts), Blocks(facts.blocks, facts.provisionable)
    accounts = {each.slug: each.account for each in facts.teams}
    ends = sorted((each.ends_in, each.id, each) for each in facts.holders if each.ends_in is not None)
    for time, _, each in [(0, "", None), *ends]:
        if each is not None:
            tree.give(accounts[each.team], each.units)
            blocks.release(each.placed)
        if tree.available(accounts[wanted.team]) >= wanted.units and blocks.fits(
            wanted.units_each, wanted.pods
        ):
            return time
    return None


@given(seeds)
@settings(max_examples=drawn(usual=133, soak=2000))
def test_backfill_never_delays_the_first_who_waits_past_its_earliest_start(seed):
    facts = random_supply(seed, preemptible=0, nodes=6, holders=14)
    # An elder need not wait for those who came later; here nobody has waited long enough.
    facts = replace(
        facts,
        waiters=tuple(replace(each, queued_at=each.queued_at // 4 + NOW * 3 // 4) for each in facts.waiters),
    )
    answer = plan(facts)
    first = next((name for name in answer.order if answer.verdicts[name].rule in {"quota", "blocks"}), None)
    if first is None:
        return
    # The state in which it was judged: everybody before it has started.
    before = answer.order[: answer.order.index(first)]
    then = started(facts, [name for name in before if answer.verdicts[name].admitted])
    promised = earliest(then, first)
    if promised is None:
        return
    after = started(facts, answer.admitted)
    found = earliest(after, first)
    assert found is not None
    assert found <= max(promised, 0)


def started(facts, names):
    """The snapshot once these have started, placed as a pass places them."""
    blocks, tree = Blocks(facts.blocks, facts.provisionable), Tree(facts.accounts)
    accounts = {each.slug: each.account for each in facts.teams}
    waiting = {each.id: each for each in facts.waiters}
    holders = list(facts.holders)
    for name in names:
        each = waiting[name]
        tree.take(accounts[each.team], each.units)
        places = blocks.place(each.units_each, each.pods)
        holders.append(holder(name, each.team, each.units, placed=places, ends_in=each.seconds))
    return replace(
        facts, holders=tuple(holders),
        blocks=tuple(replace(each, free=blocks.free[each.node]) for each in facts.blocks),
        accounts=tuple(replace(each, used=tree.used[tree.place(each.name)]) for each in facts.accounts),
    )  # fmt: skip


def of_few_lengths(seed):
    """A generated pool in which many times are equal, so that shadows and ends meet, and nobody has waited long."""
    random, facts = stdlib_random.Random(seed), random_supply(seed, teams=4, nodes=4, holders=12, waiters=14)
    lengths = (60, 120, 600, 1200, 3600, 5400)
    holders = (replace(each, ends_in=random.choice(lengths)) for each in facts.holders)
    waiters = (
        replace(each, seconds=random.choice(lengths), queued_at=max(each.queued_at, NOW - 3599))
        for each in facts.waiters
    )
    return replace(facts, holders=tuple(holders), waiters=tuple(waiters))


def longest_of(verdict):
    return next((each.value for each in verdict.evidence if each.fact == "longest_time_limit"), None)


@given(seeds)
@settings(max_examples=drawn(usual=166, soak=2500))
def test_who_is_told_how_long_it_may_run_starts_with_that_limit_and_not_with_more(seed):
    facts = of_few_lengths(seed)
    for name, verdict in plan(facts).verdicts.items():
        longest = longest_of(verdict)
        if longest is None:
            continue
        for seconds, starts in ((longest, True), (longest + 1, False)):
            asked = (replace(each, seconds=seconds) if each.id == name else each for each in facts.waiters)
            assert judge(replace(facts, waiters=tuple(asked)), name).admitted is starts
