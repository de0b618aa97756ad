from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.packing import Blocks
from policy.pool_snapshot import Block, Provisionable
from tests.effort import drawn


def blocks(*free, block=0, units=0):
    return Blocks(
        [Block(f"n{number}", 8, each) for number, each in enumerate(free)], Provisionable(block, units)
    )


def test_a_pod_goes_to_the_fullest_node_that_takes_it_so_that_large_blocks_stay_whole():
    room = blocks(8, 3, 5)
    assert room.place(3, 1) == (("n1", 3),)
    assert room.place(3, 2) == (("n2", 3), ("n0", 3))
    assert room.largest_free == 5


def test_equals_are_taken_by_name():
    assert blocks(4, 4, 4).place(4, 2) == (("n0", 4), ("n1", 4))


def test_a_gang_gets_all_its_places_or_none():
    room = blocks(8, 8, 4)
    assert room.place(8, 3) is None
    assert (room.free_total, room.largest_free) == (20, 8)
    assert room.place(8, 2) == (("n0", 8), ("n1", 8))
    assert room.free_total == 4


def test_nodes_that_do_not_exist_come_last_and_keep_what_is_left_of_them():
    room = blocks(2, block=8, units=20)
    assert room.provisionable == 16
    assert room.place(2, 4) == (("n0", 2), ("new-1", 6))
    assert room.place(2, 1) == (("new-1", 2),)
    assert room.place(8, 1) == (("new-2", 8),)
    assert not room.fits(1, 1)
    room.release([("new-2", 8)])
    assert room.fits(8, 1)


def test_a_place_on_a_new_node_is_known_to_every_copy_that_it_is_taken_from():
    room = blocks(block=8, units=16)
    other = room.copy()
    places = room.place(4, 1)
    other.take(places)
    assert (other.free_total, other.provisionable) == (room.free_total, room.provisionable) == (4, 8)


def test_no_gpu_and_no_pod_always_fit():
    assert blocks().place(0, 3) == blocks().place(4, 0) == ()
    assert blocks().fits(0, 9)


def test_what_lies_on_a_node_that_takes_no_pods_is_not_counted():
    room = blocks(1)
    room.release([("cordoned", 8)])
    assert room.free_total == 1


def brute_force(free, units_each, pods):
    """Every split of the pods over the nodes."""
    ways = product(*(range((each // units_each if each > 0 else 0) + 1) for each in free))
    return any(sum(way) >= pods for way in ways)


@given(
    st.lists(st.integers(-2, 9), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 3),
)
@settings(max_examples=drawn(usual=150, soak=5000))
def test_it_fits_when_some_split_over_the_nodes_fits(free, units_each, pods, new):
    room = blocks(*free, block=6, units=6 * new)
    possible = brute_force([*free, *[6] * new], units_each, pods)
    assert room.fits(units_each, pods) == possible == (room.pods(units_each) >= pods)
    before = dict(room.free)
    places = room.place(units_each, pods)
    assert (places is not None) == possible
    if places is None:
        assert room.free == before
        return
    assert sum(units for _, units in places) == units_each * pods
    assert len({node for node, _ in places}) == len(places)
    for node, units in places:
        assert units % units_each == 0
        assert room.free[node] == before.get(node, 6) - units >= 0
    room.release(places)
    assert {node: room.free[node] for node in before} == before


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3), st.booleans()), max_size=30))
@settings(max_examples=drawn(usual=80, soak=2000))
def test_the_sums_stay_those_of_the_nodes(moves):
    room = blocks(8, 8, 4, 2, block=8, units=16)
    taken = []
    for units_each, pods, back in moves:
        if back and taken:
            room.release(taken.pop())
        else:
            places = room.place(units_each, pods)
            if places:
                taken.append(places)
        assert room.free_total == sum(room.free.values())
        assert room.largest_free == max(room.free.values())
        assert sum(room.counts.values()) == len(room.free)
