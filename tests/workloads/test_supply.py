"""What a node has of a card, and how much of it the flavors offer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.quotas import node_sets as sets
from tests.quotas.node_sets import COUNT, GPU, PRODUCT, STRATEGY, flavor
from workloads.nodes.supply import offers_of
from workloads.placement import NodeFacts, Sharing

MIG_1G, MIG_3G, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared"
BY_NAME = {node.name: node for node in sets.NODES}


def of(facts, card="card"):
    return replace(facts, card=card)


def offered(node, *flavors, capacity=None):
    """`(card, capacity type, cards, offered)` of each."""
    found = offers_of(node, node.allocatable if capacity is None else capacity, flavors)
    return [(offer.card, offer.capacity_type, offer.cards, offer.offered) for offer in found]


def node(allocatable, product="X", **labels):
    return NodeFacts("n", {PRODUCT: product, **labels}, allocatable)


THIRDS = of(flavor("mig-3g", resource=MIG_3G, sharing=Sharing.MIG, fraction=Fraction(3, 7)))
SEVENTHS = of(sets.MIG_MIXED)
WHOLE = of(flavor("whole"))
QUARTERS = of(sets.T4_RENAMED)


def test_whole_gpus_are_the_cards_of_their_node():
    assert offered(BY_NAME["a100-0"], of(sets.A100_40GB)) == [("card", "on-demand", 8, 8)]
    assert offered(BY_NAME["a100-spot-0"], of(sets.A100_40GB)) == [("card", "spot", 8, 8)]


def test_a_unit_that_is_not_usable_is_a_card_that_nobody_is_offered():
    assert offered(node({GPU: 7}), WHOLE, capacity={GPU: 8}) == [("card", "on-demand", 8, 7)]
    assert offered(node({GPU: 0}), WHOLE, capacity={GPU: 8}) == [("card", "on-demand", 8, 0)]
    assert offered(node({}), WHOLE, capacity={GPU: 8}) == [("card", "on-demand", 8, 0)]


def test_two_slices_of_three_sevenths_leave_a_seventh():
    assert offered(node({MIG_3G: 2}), THIRDS) == [("card", "on-demand", 1, Fraction(6, 7))]
    assert offered(node({MIG_3G: 16}), THIRDS) == [("card", "on-demand", 8, Fraction(48, 7))]


def test_what_no_flavor_is_cut_from_is_not_offered():
    mixed = BY_NAME["a100-mig-0"]
    assert offered(mixed, SEVENTHS, THIRDS) == [("card", "on-demand", 8, Fraction(28 + 24, 7))]
    assert offered(mixed, SEVENTHS) == [("card", "on-demand", 8, 4)]


def test_slices_under_strategy_single_are_counted_back_into_cards():
    """There the label counts slices."""
    single = of(sets.MIG_SINGLE)
    assert offered(BY_NAME["a100-mig-single-0"], single) == [("card", "on-demand", 8, 8)]
    thirds = replace(single, gpu_fraction=Fraction(3, 7))
    cut = NodeFacts("n", {PRODUCT: f"{sets.A100_80}-MIG-1g.10gb", COUNT: "4"}, {GPU: 4})
    assert offered(cut, thirds) == [("card", "on-demand", 2, Fraction(12, 7))]


def test_shares_are_as_many_as_there_are_of_the_cards_that_the_label_counts():
    shares = BY_NAME["t4-shared-0"]
    assert offered(shares, QUARTERS) == [("card", "on-demand", 1, 1)]
    eighths = replace(QUARTERS, gpu_fraction=Fraction(1, 8))
    assert offered(shares, eighths) == [("card", "on-demand", 1, Fraction(1, 2))]
    halves = replace(QUARTERS, gpu_fraction=Fraction(1, 2))
    assert offered(shares, halves) == [("card", "on-demand", 1, 1)], "a card is no more than itself"
    unlabelled = replace(shares, labels={k: v for k, v in shares.labels.items() if k != COUNT})
    assert offered(unlabelled, QUARTERS) == [("card", "on-demand", 1, 1)]
    assert offered(replace(unlabelled, allocatable={SHARED: 3}), QUARTERS) == [
        ("card", "on-demand", 1, Fraction(3, 4))
    ]


@pytest.mark.parametrize("count", ["", "0", "many", "-3", "1234567890123"])
def test_a_label_that_counts_nothing_is_not_believed(count):
    assert offered(node({GPU: 2}, **{COUNT: count}), WHOLE) == [("card", "on-demand", 2, 2)]


def test_a_node_costs_whether_or_not_it_takes_pods():
    lost = replace(BY_NAME["a100-0"], ready=False, unschedulable=True)
    assert offered(lost, of(sets.A100_40GB)) == [("card", "on-demand", 8, 8)]


def test_a_node_that_no_flavor_matches_has_no_card_that_anybody_knows():
    assert offered(BY_NAME["cpu-0"], WHOLE) == []
    assert offered(BY_NAME["h100-0"], of(sets.A100_40GB)) == []
    assert offered(BY_NAME["t4-unrenamed-0"], WHOLE) == [], "a share is no whole GPU"
    assert offered(node({GPU: 1}), of(flavor("nameless"), card="")) == []


def test_of_two_capacity_types_the_one_wins_that_names_more_labels_then_on_demand():
    spot = {"node_selector": {"life": ["spot"]}}
    either = of(flavor("either", capacity={"spot": {}, "on-demand": {}}))
    named = of(flavor("named", capacity={"on-demand": {}, "spot": spot}))
    taken_back = node({GPU: 1}, life="spot")
    assert offered(taken_back, either) == [("card", "on-demand", 1, 1)]
    assert offered(taken_back, named) == [("card", "spot", 1, 1)]
    for order in ((either, named), (named, either)):
        assert offered(taken_back, *order) == [("card", "spot", 1, 1)]


def test_a_unit_belongs_to_the_card_whose_flavor_names_more_labels_then_to_the_first_by_name():
    general, exact = of(flavor("a"), "any"), of(flavor("z", products=["X"]), "x-80gb")
    other = of(flavor("b"), "other")
    for order in ((general, other, exact), (exact, other, general)):
        assert offered(node({GPU: 2}), *order) == [("x-80gb", "on-demand", 2, 2)]
        assert offered(node({GPU: 2}, product="Y"), *order) == [("any", "on-demand", 2, 2)]


def test_of_two_cards_on_a_node_each_counts_its_own_units():
    """The label counts both together."""
    second = of(flavor("second", resource="nvidia.com/t400"), "t400")
    assert offered(node({GPU: 4, "nvidia.com/t400": 2}, **{COUNT: "6"}), WHOLE, second) == [
        ("card", "on-demand", 4, 4),
        ("t400", "on-demand", 2, 2),
    ]


def test_whole_gpus_beside_slices_are_cards_too_where_the_label_leaves_them_out():
    mixed = node({GPU: 4, MIG_1G: 28}, **{COUNT: "4", STRATEGY: "none"})
    assert offered(mixed, WHOLE, SEVENTHS) == [("card", "on-demand", 8, 8)]


def test_what_is_offered_is_shown_by_resource():
    (offer,) = offers_of(node({MIG_3G: 2, MIG_1G: 1}), {}, [THIRDS, SEVENTHS])
    assert offer.resources == {
        MIG_1G: {"units": 1, "fraction": "1/7"},
        MIG_3G: {"units": 2, "fraction": "3/7"},
    }
