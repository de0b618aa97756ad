"""Which nodes a flavor means: never those where the same resource name is something else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.packing import what_exists
from tests.quotas import node_sets as sets
from tests.tables import each_row
from workloads.placement import (
    Sharing,
    largest_block,
    matches,
    node_terms,
    takes_pods,
    tolerated,
    tolerations,
    usable,
)


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
        (sets.MPS, "on-demand", set(), 0),
        (sets.ANY_SLICED, "on-demand", {"t4-unrenamed-0"}, 4),
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
        if term["operator"] == "DoesNotExist" and value is not None:
            return False
    return True


ALL = [(flavor, capacity_type) for flavor in sets.FLAVORS for capacity_type in flavor.capacity]
LATE = {node.name for node in sets.LATE}


@pytest.mark.parametrize(
    ("flavor", "expected"),
    [
        (sets.ANY_GPU, {"l4-whole"}),
        (sets.A100_40GB, set()),
        (sets.T4, set()),
        (sets.T4_RENAMED, set()),
        (sets.T4_UNRENAMED, set()),
        (sets.MIG_MIXED, set()),
        (sets.MIG_SINGLE, {"a30-mig"}),
        (sets.MPS, {"t4-mps"}),
        (sets.MPS_RENAMED, {"t4-mps-renamed"}),
        (sets.ANY_SLICED, {"l4-sliced", "a30-mig-sliced"}),
        (sets.MIG_SLICED, {"a100-mig-mixed-sliced"}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_of_other_kinds_of_nodes_too_a_flavor_takes_only_its_own(flavor, expected):
    assert names(flavor, nodes=sets.LATE) == expected


@pytest.mark.parametrize(("flavor", "capacity_type"), ALL, ids=lambda value: getattr(value, "name", value))
def test_what_is_judged_and_what_the_scheduler_is_told_are_the_same_nodes(flavor, capacity_type):
    """For nodes that were not there yet when the pod was made too."""
    terms = node_terms(flavor, capacity_type, sets.NODES)
    for node in [*sets.NODES, *sets.LATE]:
        offers = node.allocatable.get(flavor.resource, 0) > 0
        assert (offers and affinity_takes(terms, node)) == matches(flavor, capacity_type, node), node.name


@given(st.sets(st.sampled_from(sorted(LATE))), st.sampled_from(sets.FLAVORS))
def test_no_flavor_lands_on_units_of_another_kind_whatever_was_seen_before(seen, flavor):
    terms = node_terms(flavor, "on-demand", [node for node in sets.LATE if node.name in seen])
    for node in sets.LATE:
        offers = node.allocatable.get(flavor.resource, 0) > 0
        assert not (offers and affinity_takes(terms, node)) or matches(flavor, "on-demand", node), node.name


def test_one_shared_node_of_a_product_does_not_shut_out_the_whole_gpus_of_that_product():
    """Where MPS is renamed, the product keeps its name, and only the label tells."""
    plain = [node for node in sets.NODES if node.name == "t4-0"]
    renamed = [node for node in sets.LATE if node.name == "t4-mps-renamed"]
    assert affinity_takes(node_terms(sets.ANY_GPU, "on-demand", [*plain, *renamed]), plain[0])


def test_slices_that_no_node_offers_yet_are_looked_for_by_their_label():
    careless = sets.flavor("careless", sharing=Sharing.MIG)
    (mig,) = [node for node in sets.LATE if node.name == "a30-mig"]
    whole = [node for node in sets.LATE if node.name == "l4-whole"]
    terms = node_terms(careless, "on-demand", whole)
    assert affinity_takes(terms, mig)
    assert not affinity_takes(terms, whole[0])


EFFECTS = ["NoSchedule", "NoExecute"]


@each_row("effect", EFFECTS)
@each_row(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "no"}, False),
        ({"key": "gpu"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Equal", "value": "yes"}, False),
        ({}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "PreferNoSchedule"}, False),
    ],
)
def test_a_taint_is_tolerated_as_kubernetes_says(toleration, tolerates, effect):
    taint = {"key": "gpu", "value": "yes", "effect": effect}
    assert tolerated(taint, [toleration]) is tolerates
    other = next(each for each in EFFECTS if each != effect)
    assert tolerated(taint, [{**toleration, "effect": effect}]) is (
        tolerates or toleration.get("effect") == "PreferNoSchedule"
    )
    assert not tolerated(taint, [{**toleration, "effect": other}])
    assert not tolerated(taint, [])


def test_a_taint_without_a_value_and_one_that_only_prefers():
    assert tolerated({"key": "gpu", "effect": "NoSchedule"}, [{"key": "gpu"}])
    assert tolerated({"key": "gpu", "effect": "PreferNoSchedule"}, [])


def test_a_node_is_usable_when_it_is_ready_schedulable_and_tolerated():
    node = next(node for node in sets.NODES if node.name == "a100-0")
    assert usable(sets.A100_40GB, "on-demand", node)
    assert not usable(sets.A100_40GB, "spot", node)
    assert not usable(sets.A100_40GB, "on-demand", replace(node, ready=False))
    assert not usable(sets.A100_40GB, "on-demand", replace(node, unschedulable=True))
    disrupted = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    assert not usable(sets.A100_40GB, "on-demand", replace(node, taints=[*node.taints, disrupted]))
    assert not usable(replace(sets.A100_40GB, tolerations=[]), "on-demand", node)


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
    lost = tolerations(None, "on-demand")
    assert {each["key"] for each in lost} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert {each["tolerationSeconds"] for each in lost} == {60}
    own = {"key": "nvidia.com/gpu", "operator": "Exists"}
    assert tolerations(sets.T4, "on-demand") == [own, *lost]


def test_spot_pods_tolerate_the_taints_by_which_clouds_mark_such_nodes():
    taint = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
    assert tolerated(taint, tolerations(sets.T4, "spot"))
    assert not tolerated(taint, tolerations(sets.T4, "on-demand"))
    node = replace(next(each for each in sets.NODES if each.name == "a100-spot-0"), taints=[taint])
    assert takes_pods(sets.A100_40GB, "spot", node)
    assert not takes_pods(sets.A100_40GB, "on-demand", node)
