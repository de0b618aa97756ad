from __future__ import annotations

import random as stdlib_random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.arithmetic import Tree
from policy.judge import judge, plan
from policy.packing import Blocks
from policy.pool_snapshot import AdmissionRules
from policy.preemption import evictions_after_cut, reclaim_headroom
from policy.verdicts import PreemptionCause
from tests.effort import drawn
from tests.quotas.pure_world import HOUR, cohort, holder, random_supply, random_world, snapshot, team, waiter
from tests.quotas.real_queue import RealQueue

COHORT = [cohort("c"), team("vision", 16, "c"), team("speech", 8, "c"), team("audio", 8, "c")]
RECLAIM, LOWER = PreemptionCause.IN_COHORT_RECLAMATION, PreemptionCause.IN_CLUSTER_QUEUE


def borrower(name, owner="speech", units=8, **changes):
    return holder(name, owner, units, preemptible=True, **changes)


def victims(*holders, asks=8, limits=COHORT, **changes):
    facts = snapshot(limits, holders=holders, waiters=[waiter(units=asks, **changes)])
    return [each.id for each in judge(facts, "w").victims]


def test_lent_quota_comes_back_from_who_borrows_whatever_the_priority():
    held = [borrower(f"s{number}", priority=1000) for number in range(4)]
    facts = snapshot(COHORT, holders=held, waiters=[waiter(priority=100)])
    verdict = judge(facts, "w")
    assert [each.cause for each in verdict.victims] == [RECLAIM]
    assert verdict.message == (
        "This run starts within 60 s, once others have been stopped for it: 1 of other teams on GPUs that are guaranteed to team vision."
    )


def test_who_would_borrow_reclaims_nothing():
    held = [borrower(f"s{number}") for number in range(3)]
    assert victims(*held, borrower("v", "vision"), asks=16, pods=2) == []


def test_a_team_gives_back_only_while_it_borrows():
    """audio borrows 16, of which 8 could leave; speech uses its own 8 and keeps them."""
    held = [borrower("s0"), borrower("a0", "audio"), holder("x", "audio", 8), holder("y", "audio", 8)]
    assert victims(*held, asks=8) == ["a0"]
    assert victims(*held, asks=16, pods=2) == []


def test_lower_priority_of_the_own_team_leaves_for_higher():
    limits = [team("vision", 32)]
    held = [borrower(f"v{number}", "vision", priority=100 * (number + 1)) for number in range(4)]
    facts = snapshot(limits, holders=held, waiters=[waiter(priority=500)])
    assert [(each.id, each.cause) for each in judge(facts, "w").victims] == [("v0", LOWER)]
    assert victims(*held, limits=limits, priority=100) == []


def test_among_equals_the_least_work_is_lost():
    held = [
        borrower("s0", lost_seconds=900),
        borrower("s1", lost_seconds=30),
        borrower("s2", lost_seconds=400),
    ]
    assert victims(*held, holder("v", "vision", 8)) == ["s1"]
    same = [replace(each, lost_seconds=5, age_seconds=500 + n) for n, each in enumerate(held)]
    assert victims(*same, holder("v", "vision", 8)) == ["s0"]


def test_the_team_that_borrows_most_gives_back_first():
    little = [borrower("a0", "audio", 8, lost_seconds=1), borrower("a1", "audio", 2, lost_seconds=1)]
    much = [borrower("s0", "speech", 8), borrower("s1", "speech", 6), holder("x", "speech", 8)]
    assert victims(*little, *much, asks=2) == ["s0"]


def test_nobody_leaves_who_is_young_leaving_already_or_not_preemptible():
    full = {"limits": COHORT}
    fixed = [holder(f"f{number}", "speech", 8) for number in range(3)]
    assert victims(*fixed, borrower("young", age_seconds=299), **full) == []
    assert victims(*fixed, borrower("old", age_seconds=300), **full) == ["old"]
    assert victims(*fixed, holder("fixed", "speech", 8), **full) == []
    assert victims(*fixed, borrower("going", leaving=True), **full) == []


def test_only_those_leave_who_are_needed():
    held = [
        borrower("small", units=2, lost_seconds=1),
        borrower("large", units=8, lost_seconds=50),
        borrower("s2", units=8, lost_seconds=60),
        holder("x", "speech", 6, placed=(("n4", 6),)),
    ]
    placed = [
        replace(held[0], placed=(("n4", 2),)),
        replace(held[1], placed=(("n1", 8),)),
        replace(held[2], placed=(("n2", 8),)),
        held[3],
        holder("v", "audio", 8, placed=(("n3", 8),)),
    ]
    assert victims(*placed) == ["large"]


def cut(holders, limits, slug="vision"):
    return [each.id for each in evictions_after_cut(snapshot(limits, holders=holders), slug)]


def test_a_cut_evicts_in_the_same_order_until_the_rest_fits():
    held = [borrower(f"v{number}", "vision", lost_seconds=100 - number) for number in range(4)]
    assert cut(held, [team("vision", 32)]) == []
    assert cut(held, [team("vision", 17)]) == ["v3", "v2"]
    assert (
        evictions_after_cut(snapshot([team("vision", 24)], holders=held), "vision")[0].cause
        is PreemptionCause.QUOTA_REDUCED
    )
    assert cut([replace(held[0], leaving=True), *held[1:]], [team("vision", 24)]) == []
    assert cut([holder(f"f{n}", units=8) for n in range(4)], [team("vision", 8)]) == []
    assert cut(held, [team("vision", 8)], "nobody") == []


def test_a_cut_of_what_others_lend_evicts_who_borrows_it_and_nobody_else():
    limits = [cohort("c"), team("vision", 8, "c"), team("speech", 4, "c")]
    held = [
        borrower("v0", "vision"),
        borrower("v1", "vision", 4, lost_seconds=9),
        borrower("s0", "speech", 4),
    ]
    assert cut(held, limits) == ["v1"]
    assert cut(held, limits, "speech") == []


def test_headroom_returns_from_those_who_lose_least():
    lent = [borrower(f"l{n}", units=n + 1, lent=True, lost_seconds=n, age_seconds=1) for n in range(4)]
    found = reclaim_headroom([*lent, borrower("own", units=8, lost_seconds=0)], 4)
    assert [each.id for each in found] == ["l0", "l2"]
    assert {each.cause for each in found} == {PreemptionCause.HEADROOM_RECLAIMED}
    assert len(reclaim_headroom(lent, 99)) == 4
    assert reclaim_headroom(lent, 0) == ()
    assert reclaim_headroom([replace(lent[3], leaving=True), *lent[:3]], 4) == ()


def room_without(facts, gone):
    tree, blocks = Tree(facts.accounts), Blocks(facts.blocks, facts.provisionable)
    accounts = {each.slug: each.account for each in facts.teams}
    for each in facts.holders:
        if each.id in gone or each.leaving:
            blocks.release(each.placed)
            tree.give(accounts[each.team], each.units)
    return tree, blocks, accounts


def enough(facts, wanted, gone):
    tree, blocks, accounts = room_without(facts, gone)
    return tree.available(accounts[wanted.team]) >= wanted.units and blocks.fits(
        wanted.units_each, wanted.pods
    )


@given(st.integers(0, 10**6))
@settings(max_examples=drawn(usual=150, soak=5000))
def test_victims_are_allowed_enough_and_none_too_many(seed):
    facts = random_supply(seed, preemptible=0.8, nodes=5, holders=16, waiters=1)
    wanted = facts.waiters[0]
    held = {each.id: each for each in facts.holders}
    found = judge(facts, wanted.id).victims
    if not found:
        return
    gone = {each.id for each in found}
    assert not enough(facts, wanted, set())
    assert enough(facts, wanted, gone)
    for size in range(len(gone)):
        assert not any(enough(facts, wanted, set(fewer)) for fewer in combinations(gone, size))
    tree, _, accounts = room_without(facts, set())
    for each in found:
        loser = held[each.id]
        assert loser.preemptible
        assert loser.age_seconds >= facts.rules.minimum_run_seconds
        assert each.lost_seconds == loser.lost_seconds
        if each.cause is RECLAIM:
            assert loser.team != wanted.team
            assert tree.borrowed(accounts[loser.team]) > 0
            assert tree.within_guaranteed(tree.place(accounts[wanted.team]), wanted.units)
        else:
            assert (loser.team, loser.priority < wanted.priority) == (wanted.team, True)


@given(st.integers(0, 10**6))
@settings(max_examples=drawn(usual=60, soak=1500))
def test_nobody_is_a_victim_twice_and_nobody_starts_in_what_is_made_free_for_another(seed):
    facts = random_supply(seed, preemptible=0.8, nodes=8, holders=24, waiters=20)
    answer = plan(facts)
    found = [each.id for verdict in answer.verdicts.values() for each in verdict.victims]
    assert len(found) == len(set(found))
    tree, blocks, accounts = room_without(facts, set(found))
    waiting = {each.id: each for each in facts.waiters}
    served = [name for name in answer.order if answer.verdicts[name].admitted]
    served += [name for name in answer.order if answer.verdicts[name].rule in {"preemption", "leaving"}]
    for name in served:
        assert tree.available(accounts[waiting[name].team]) >= waiting[name].units
        tree.take(accounts[waiting[name].team], waiting[name].units)
    assert sum(waiting[name].units_each * waiting[name].pods for name in served) <= blocks.free_total


def test_owner_and_borrower_do_not_chase_each_other():
    """Both want the whole of what they may have, all the time; each run is evicted a few times at most."""
    limits = [cohort("c"), team("vision", 8, "c"), team("speech", 8, "c")]
    world = RealQueue(limits, {"n1": 8, "n2": 8}, lambda _: 40 * HOUR, AdmissionRules())
    for number in range(4):
        for slug in ("vision", "speech"):
            world.submit(
                waiter(
                    f"{slug}{number}",
                    slug,
                    4,
                    seconds=48 * HOUR,
                    preemptible=True,
                    priority=500 if number % 2 else 1000,
                    queued_at=number,
                    sequence=number,
                )
            )
    world.step(10**9)
    quiet = 0
    for _ in range(50):
        before = len(world.evictions)
        world.advance(min(world.now + HOUR, world.next_time()))
        world.step(10**9)
        quiet = quiet + 1 if len(world.evictions) == before else 0
    assert quiet >= 40
    assert len(world.evictions) <= 4
    assert {
        slug: sum(each["holder"].units for each in world.running.values() if each["holder"].team == slug)
        for slug in ("vision", "speech")
    } == {"vision": 8, "speech": 8}


def test_the_owner_gets_its_quota_back_once_and_the_borrower_waits_in_peace():
    limits = [cohort("c"), team("vision", 8, "c"), team("speech", 8, "c")]
    world = RealQueue(limits, {"n1": 8, "n2": 8}, lambda _: 40 * HOUR, AdmissionRules())
    for number in range(2):
        world.submit(waiter(f"s{number}", "speech", 8, seconds=48 * HOUR, preemptible=True, priority=1000))
    world.step(10**9)
    world.advance(HOUR)
    world.submit(waiter("v", "vision", 8, seconds=48 * HOUR, preemptible=True, priority=100))
    while world.now < 30 * HOUR:
        world.step(10**9)
        world.advance(min(world.now + HOUR, world.next_time()))
    assert world.started["v"] == HOUR + 60
    assert len(world.evictions) == 1
    assert "v" in world.running


@pytest.mark.matrix
@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_nobody_makes_the_same_run_leave_again_and_again(seed):
    limits, sizes, facts = random_world(seed, teams=4, nodes=5, holders=16, waiters=18, preemptible=0.8)
    random = stdlib_random.Random(seed)
    world = RealQueue(
        limits, sizes, lambda run: random.randrange(1, limit_of(run) + 1), facts.rules, facts.teams
    )
    world.take_in(facts)
    world.run_out(facts.now)
    pairs = Counter((preemptor, victim.id) for _, victim, preemptor in world.evictions)
    assert max(pairs.values(), default=0) <= 2


def limit_of(run):
    return getattr(run, "seconds", None) or run.ends_in
