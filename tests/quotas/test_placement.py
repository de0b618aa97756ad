"""Which nodes a flavor means: never those where the same resource name is something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.policy import what_exists
from tests.quotas import node_sets as sets
from workloads.placement import Sharing, largest_block, matches, node_terms, tolerations


def names(flavor, capacity_type="on-demand", nodes=sets.NODES):
    return {node.name for node in nodes if matches(flavor, capacity_type, node)}


WHOLE = {f"a100-{index}" for index in range(4)} | {f"t4-{index}" for index in range(4)}


@pytest.mark.parametrize(
    ("flavor", "capacity_type", "expected", "block"),
    [
        (sets.A100_40GB, "on-demand", {f"a100-{index}" for index in range(4)}, 8),
        (sets.A100_40GB, "spot", {"a100-spot-0", "a100-spot-1"}, 8),
        (sets.T4, "on-demand", {f"t4-{index}" for index in range(4)}, 1),
        (sets.T4_RENAMED, "on-demand", {"t4-shared-0"}, 4),
        (sets.T4_UNRENAMED, "on-demand", {"t4-unrenamed-0"}, 4),
        (sets.MIG_MIXED, "on-demand", {"a100-mig-0"}, 28),
        (sets.MIG_SINGLE, "on-demand", {"a100-mig-single-0"}, 56),
        (sets.ANY_GPU, "on-demand", WHOLE | {"a100-spot-0", "a100-spot-1", "h100-0"}, 8),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_flavor_means_its_own_nodes_alone(flavor, capacity_type, expected, block):
    assert names(flavor, capacity_type) == expected
    assert largest_block(flavor, capacity_type, sets.NODES) == block


@pytest.mark.parametrize("sharing", [Sharing.TIME_SLICING, Sharing.MPS, Sharing.MIG])
def test_a_shared_flavor_never_means_whole_gpus_even_without_labels_of_its_own(sharing):
    careless = sets.flavor("careless", sharing=sharing)
    assert not names(careless) & (WHOLE | {"a100-spot-0", "h100-0"})


def affinity_takes(terms, node):
    """What the scheduler does with required match expressions."""
    for term in terms:
        value = node.labels.get(term["key"])
        if term["operator"] == "In" and value not in term["values"]:
            return False
        if term["operator"] == "NotIn" and value in term["values"]:
            return False
        if term["operator"] == "Exists" and value is None:
            return False
    return True


ALL = [
    (sets.A100_40GB, "on-demand"),
    (sets.A100_40GB, "spot"),
    *[
        (each, "on-demand")
        for each in (sets.T4, sets.T4_RENAMED, sets.T4_UNRENAMED, sets.MIG_MIXED, sets.ANY_GPU)
    ],
    (sets.MIG_SINGLE, "on-demand"),
]


@pytest.mark.parametrize(("flavor", "capacity_type"), ALL, ids=lambda value: getattr(value, "name", value))
def test_what_is_judged_and_what_the_scheduler_is_told_are_the_same_nodes(flavor, capacity_type):
    terms = node_terms(flavor, capacity_type, sets.NODES)
    for node in sets.NODES:
        offers = node.allocatable.get(flavor.resource, 0) > 0
        assert (offers and affinity_takes(terms, node)) == matches(flavor, capacity_type, node), node.name


def test_a_time_sliced_node_that_comes_later_is_excluded_by_its_label_already():
    terms = node_terms(sets.ANY_GPU, "on-demand", [])
    sliced = next(node for node in sets.NODES if node.name == "t4-unrenamed-0")
    assert not affinity_takes(terms, sliced)


@given(st.permutations(sets.NODES))
def test_the_terms_do_not_depend_on_the_order_of_nodes(nodes):
    assert node_terms(sets.ANY_GPU, "on-demand", nodes) == node_terms(sets.ANY_GPU, "on-demand", sets.NODES)


def test_capacity_labels_win_over_the_flavors_own():
    mixed = sets.flavor("x", products=["a"], capacity={"spot": {"node_selector": {sets.PRODUCT: ["b"]}}})
    assert mixed.selector("spot") == {sets.PRODUCT: ["b"]}
    assert mixed.selector("on-demand") == {sets.PRODUCT: ["a"]}


@pytest.mark.parametrize(
    ("observed", "declared", "block"), [([], 0, 0), ([4], 0, 4), ([4], 8, 8), ([16], 8, 16)]
)
def test_the_largest_block_is_observed_or_declared(observed, declared, block):
    capacity = (
        {"on-demand": {"provisionable": {"block": declared, "units": 32}}} if declared else {"on-demand": {}}
    )
    flavor = sets.flavor("x", capacity=capacity)
    nodes = [sets.NodeFacts(name=f"n{size}", labels={}, allocatable={sets.GPU: size}) for size in observed]
    assert largest_block(flavor, "on-demand", nodes) == block


def test_what_exists_is_said_in_numbers():
    assert what_exists(sets.A100_40GB, sets.NODES) == (
        "Nodes that exist: 4 with 8 a100-40gb (on-demand), 2 with 8 a100-40gb (spot)."
    )
    assert what_exists(sets.T4, []) == "No node offers t4."
    from_zero = sets.flavor("a100", capacity={"spot": {"provisionable": {"block": 8, "units": 32}}})
    assert what_exists(from_zero, []) == "Nodes that exist: up to 8 per new node (spot)."


def test_every_pod_tolerates_a_lost_node_for_a_minute_and_gpu_pods_their_taint():
    lost = tolerations(None)
    assert {each["key"] for each in lost} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert {each["tolerationSeconds"] for each in lost} == {60}
    assert tolerations(sets.T4) == [{"key": "nvidia.com/gpu", "operator": "Exists"}, *lost]
