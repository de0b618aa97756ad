"""CPU, memory, storage and places of nodes: counted as the scheduler does, and only where they can run out."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policy import node_resources
from policy.estimates import simulate
from policy.free_capacity import PoolInTime
from policy.judge import judge, plan
from policy.levers import levers
from policy.node_resources import may_run_out
from policy.packing import Blocks
from policy.pool_snapshot import Block, Provisionable
from policy.snapshot_json import dump, load
from tests.effort import drawn
from tests.quotas.pure_world import GIB, HOUR, NOW, holder, random_hosts, snapshot, waiter, with_hosts

T4 = (3920, 14 * GIB, 90 * 10**9, 110)
SMALL, LARGE = (1000, 4 * GIB, 0), (2000, 12 * GIB, 0)


def t4s(*, holders=(), waiters=(), nodes=2, others=T4, **left):
    facts = snapshot(
        nodes={f"t4-{number}": 1 for number in range(nodes)},
        holders=holders,
        waiters=waiters,
        largest_block=1,
    )
    return with_hosts(facts, others, **left)


def test_what_waits_for_memory_is_told_so_and_holds_no_gpu():
    facts = t4s(
        waiters=[waiter(units=1, beside=LARGE)], **{f"t4-{n}": (3920, 8 * GIB, 10**10, 99) for n in (0, 1)}
    )
    verdict = judge(facts, "w")
    assert (verdict.outcome, verdict.rule, verdict.reason) == ("wait", "blocks", "TopologyPlacementFailed")
    assert verdict.message == (
        "This run needs 12Gi of memory on a node with 1 a100-40gb (on-demand) free; t4-1 has 8Gi left."
    )
    numbers = {each.fact: each.value for each in verdict.evidence}
    assert (numbers["requested_memory"], numbers["largest_free_memory"]) == (12 * GIB, 8 * GIB)


def test_a_pod_goes_where_its_memory_is():
    facts = t4s(waiters=[waiter(units=1, beside=LARGE)], **{"t4-0": (3920, 8 * GIB, 10**10, 99)})
    assert judge(facts, "w").admitted


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ((500, 14 * GIB, 10**10, 9), "needs 1 core on a node with 1 a100-40gb (on-demand) free; t4-0 has 0.5 left."),
        ((3920, 14 * GIB, 10**10, 0), "needs a place for a pod on a node with 1 a100-40gb (on-demand) free; t4-0 has 0 left."),
        ((3920, 3 * GIB + 10, 10**10, 9), "needs 4Gi of memory on a node with 1 a100-40gb (on-demand) free; t4-0 has 3Gi left."),
    ],
)  # fmt: skip
def test_each_of_them_has_its_sentence(left, said):
    facts = t4s(nodes=1, waiters=[waiter(units=1, beside=SMALL)], **{"t4-0": left})
    assert judge(facts, "w").message == f"This run {said}"


def test_a_gang_is_told_for_how_many_of_its_pods_there_is_memory():
    facts = t4s(
        nodes=3, waiters=[waiter(units=3, pods=3, beside=LARGE)], **{"t4-2": (3920, 8 * GIB, 10**10, 9)}
    )
    assert judge(facts, "w").message == (
        "This run needs 12Gi of memory on a node with 1 a100-40gb (on-demand) free for each of 3 pods at once; "
        "there is room for 2."
    )


def test_two_pods_of_one_node_need_the_memory_of_both():
    facts = with_hosts(snapshot(nodes={"n": 8}, waiters=[waiter(units=8, pods=2, beside=(1000, 60 * GIB, 0))]), (64000, 100 * GIB, 0, 110))  # fmt: skip
    assert judge(facts, "w").rule == "blocks"
    assert judge(
        replace(facts, waiters=(replace(facts.waiters[0], beside=(1000, 50 * GIB, 0)),)), "w"
    ).admitted


@pytest.mark.parametrize(
    ("beside", "rule", "field", "said"),
    [
        ((8000, 32 * GIB, 0), "largest-cpu", "cpu", "8 cores beside 1 a100-40gb (on-demand) in one pod; the most is 3.9."),
        ((1000, 500 * GIB, 0), "largest-memory", "memory", "500Gi of memory beside 1 a100-40gb (on-demand) in one pod; the most is 14Gi."),
        ((1000, GIB, 10**12), "largest-storage", "ephemeral_storage", "the most is 83.8Gi."),
    ],
)  # fmt: skip
def test_what_no_node_could_ever_hold_is_refused_by_its_field(beside, rule, field, said):
    facts = t4s(waiters=[waiter(units=1, beside=beside), waiter("next", units=1, beside=SMALL, sequence=2)])
    verdict = judge(facts, "w")
    assert (verdict.outcome, verdict.rule, verdict.field) == ("never", rule, field)
    assert said in verdict.message
    assert judge(facts, "next").admitted, "who can never start holds nobody up"


def test_what_is_not_known_refuses_nothing():
    greedy = waiter(units=1, beside=(10**6, 10**15, 10**15))
    assert judge(snapshot(nodes={"n": 8}, waiters=[greedy]), "w").admitted
    assert judge(t4s(waiters=[greedy], others=(None,) * 4), "w").admitted
    assert judge(
        t4s(waiters=[replace(greedy, beside=(1000, 10**15, 0))], others=(3920, None, None, 110)), "w"
    ).admitted


def test_nodes_that_may_come_bring_what_is_declared_of_them():
    facts = snapshot(nodes={}, waiters=[waiter(units=2, pods=2, beside=LARGE)], largest_block=1)
    declared = replace(
        facts,
        provisionable=Provisionable(1, 4, (3920, 14 * GIB, None, None)),
        hosts=((1, (3920, 14 * GIB, None, None)),),
    )
    assert judge(declared, "w").admitted
    small = (3920, 10 * GIB, None, None)
    facts = replace(declared, provisionable=Provisionable(1, 4, small), hosts=((1, small),))
    assert judge(facts, "w").rule == "largest-memory"


def test_memory_that_a_holder_gives_back_starts_the_next():
    held = holder(
        units=1, placed=(("t4-0", 1),), taken=((1000, 12 * GIB, 0, 1),), ends_in=HOUR, expected_in=HOUR
    )
    # Two units on one node, and memory for one of the two.
    facts = with_hosts(
        snapshot(nodes={"t4-0": 2}, holders=[held], waiters=[waiter(units=1, beside=LARGE)]), T4
    )
    assert judge(facts, "w").rule == "blocks"
    assert simulate(facts, expected=False) == {"w": NOW + HOUR}


def test_pods_that_no_node_has_taken_yet_keep_their_memory():
    held = holder(units=1, units_each=1, unplaced_pods=1, beside=LARGE)
    facts = snapshot(nodes={"t4-0": 2}, waiters=[waiter(units=1, beside=LARGE)])
    facts = with_hosts(replace(facts, holders=(held,)), T4)
    assert judge(facts, "w").rule == "blocks"


def test_less_memory_is_advised_as_much_as_a_node_has():
    low = (3920, 8 * GIB + 5, 10**10, 99)
    facts = t4s(waiters=[waiter(units=1, beside=LARGE)], **{"t4-0": low, "t4-1": low})
    found = {tuple(each.change.items()): each for each in levers(facts, "w").levers}
    lever = found[("memory", "8Gi"),]
    assert lever.verdict.admitted
    never = t4s(waiters=[waiter(units=1, beside=(8000, 32 * GIB, 0))])
    (lever,) = levers(never, "w").levers
    assert (dict(lever.change), lever.verdict.admitted) == ({"cpu": "3900m", "memory": "14Gi"}, True)


def test_fewer_gpus_come_with_their_own_share():
    node = (16000, 64 * GIB, 10**11, 110)
    low = (16000, 40 * GIB, 10**11, 99)
    facts = with_hosts(
        snapshot(nodes={"n": 8}, waiters=[waiter(units=8, beside=(8000, 64 * GIB, 0))]), node, n=low
    )
    assert ("gpus_per_replica", 4) not in {
        key for each in levers(facts, "w").levers for key in each.change.items()
    }
    found = levers(facts, "w", share=lambda units: (1000 * units, 8 * GIB * units, 0)).levers
    assert ("gpus_per_replica", 4) in {key for each in found for key in each.change.items()}


@contextmanager
def counting_all():
    """Whether it can run out or not."""
    known = node_resources.may_run_out
    node_resources.may_run_out = lambda snapshot: (0, 1, 2, 3)
    try:
        yield
    finally:
        node_resources.may_run_out = known


def decided(facts):
    """Without the sentences: whom of two somebody would delay is told of the first of a shape that is asked."""
    found = plan(facts)
    return found.order, [(each.outcome, each.rule, each.victims) for each in found.verdicts.values()]


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_where_units_run_out_first_counting_all_comes_to_the_same(seed):
    facts = random_hosts(seed, scarce=False)
    assert may_run_out(facts) == ()
    plain, starts = decided(facts), simulate(facts, expected=True)
    with counting_all():
        assert decided(facts) == plain
        assert simulate(facts, expected=True) == starts


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_what_cannot_run_out_is_rightly_not_counted(seed):
    facts = random_hosts(seed, scarce=True)
    assume(may_run_out(facts))
    found = decided(facts)
    with counting_all():
        assert decided(facts) == found


@settings(max_examples=drawn(usual=40, soak=1000))
@given(seed=st.integers(0, 10**6))
def test_whoever_is_admitted_has_places_with_all_that_it_asks_for(seed):
    facts = random_hosts(seed, scarce=True)
    waiters = {each.id: each for each in facts.waiters}
    left = {each.node: [each.free, *each.left] for each in facts.blocks}
    for name in plan(facts).admitted:
        each = waiters[name]
        need = [each.units_each, *each.beside, 1]
        for _ in range(each.pods):
            able = [
                (have[0], node)
                for node, have in left.items()
                if all(want <= most or not want for want, most in zip(need, have, strict=True))
            ]
            assert able, name
            node = min(able)[1]
            left[node] = [have - want for have, want in zip(left[node], need, strict=True)]


@settings(max_examples=drawn(usual=80, soak=2000))
@given(data=st.data())
def test_places_are_those_that_counting_by_hand_finds(data):
    number = st.integers(0, 6)
    nodes = data.draw(st.lists(st.tuples(number, number, number), min_size=1, max_size=5))
    each, cpu, memory, pods = data.draw(st.tuples(st.integers(1, 3), number, number, st.integers(1, 4)))
    blocks = tuple(
        Block(f"n{index}", 6, units, (6, 6, None, None), (have, more, None, None))
        for index, (units, have, more) in enumerate(nodes)
    )
    facts = replace(snapshot(nodes={}), blocks=blocks)
    room = node_resources.blocks_of(facts, (0, 1))
    by_hand = sum(
        min(units // each, *(have // want for have, want in ((a, cpu), (b, memory)) if want), 99)
        for units, a, b in nodes
    )
    assert room.pods(each, (cpu, memory, 0)) == by_hand
    assert room.fits(each, pods, (cpu, memory, 0)) == (pods <= by_hand)
    before = room.copy()
    places = room.place(each, pods, (cpu, memory, 0))
    assert (places is not None) == (pods <= by_hand)
    if places:
        assert before.lost(places, each, (cpu, memory, 0)) == pods
        assert room.pods(each, (cpu, memory, 0)) == by_hand - pods
        room.release(places)
        assert (room.free, room.left, room.kinds) == (before.free, before.left, before.kinds)


def test_a_supply_with_hosts_survives_json_and_one_without_is_judged_as_it_was():
    facts = random_hosts(7, scarce=True)
    again = load(dump(facts))
    assert (again.blocks, again.hosts, again.waiters, again.holders) == (
        facts.blocks,
        facts.hosts,
        facts.waiters,
        facts.holders,
    )
    assert plan(again) == plan(facts)
    assert isinstance(PoolInTime(facts).room.blocks, node_resources.HostBlocks)
    assert type(PoolInTime(snapshot()).room.blocks) is Blocks
