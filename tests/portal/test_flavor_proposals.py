"""Flavors that nodes would make: each takes its own nodes and no other, and the catalogue takes it as it is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from portal.flavors.forms import written
from portal.flavors.proposals import covering, proposals
from tests.quotas.node_sets import A100_40GB, COUNT, LATE, NODES, PRODUCT, T4, TAINT
from workloads.catalogue import check_flavor
from workloads.placement import FlavorFacts, NodeFacts, Sharing

KIND = "karpenter.sh/capacity-type"


def facts(proposal):
    return FlavorFacts(**{name: getattr(proposal, name) for name in FlavorFacts.__dataclass_fields__})


def gpu(name="l4-0", *, taints=(TAINT,), resource="nvidia.com/gpu", units=2, **labels):
    labels = {PRODUCT: "NVIDIA-L4", "nvidia.com/gpu.memory": "23034", **labels}
    return NodeFacts(name=name, labels=labels, allocatable={resource: units}, taints=list(taints))


def only(nodes, flavors=()):
    (found,) = proposals(nodes, flavors)
    return found


@pytest.mark.parametrize("nodes", [NODES, LATE, [*NODES, *LATE]], ids=["nodes", "late", "all"])
def test_what_is_proposed_offers_all_units_and_each_of_them_once(nodes):
    flavors = [facts(each) for each in proposals(nodes, [])]
    for node in nodes:
        for resource, units in node.allocatable.items():
            takers = covering(node, resource, flavors)
            assert len(takers) == (1 if units else 0), (node.name, resource, takers)
    assert proposals(nodes, flavors) == []


def test_the_catalogue_takes_what_is_proposed():
    found = proposals(NODES, [])
    for each in found:
        check_flavor(
            card=each.card,
            memory_gib=each.memory_gib,
            resource=each.resource,
            name=each.name,
            gpu_fraction=str(each.gpu_fraction),
            sharing=each.sharing.value,
            node_selector=each.node_selector,
            tolerations=each.tolerations,
            capacity=each.capacity,
        )
    told = {
        each.name: (each.resource, str(each.gpu_fraction), each.sharing.value, each.units) for each in found
    }
    assert told == {
        "a100-40gb": ("nvidia.com/gpu", "1", "none", 48),
        "a100-mig-1g.10gb": ("nvidia.com/gpu", "1/7", "mig", 56),
        "a100-mig-1g.10gb-2": ("nvidia.com/mig-1g.10gb", "1/7", "mig", 28),
        "a100-mig-3g.40gb": ("nvidia.com/mig-3g.40gb", "3/7", "mig", 8),
        "h100-80gb": ("nvidia.com/gpu", "1", "none", 8),
        "t4": ("nvidia.com/gpu", "1", "none", 4),
        "t4-shared": ("nvidia.com/gpu", "1/4", "time-slicing", 4),
        "t4-shared-2": ("nvidia.com/gpu.shared", "1/4", "time-slicing", 4),
    }  # fmt: skip


def test_what_flavors_offer_is_not_proposed_whether_they_are_spot_or_not():
    names = {each.name for each in proposals(NODES, [A100_40GB, T4])}
    assert not names & {"a100-40gb", "t4"}


def test_a_card_is_called_as_the_flavors_beside_it_call_it():
    whole = replace(T4, name="t4", card="turing")
    found = {each.resource: each.card for each in proposals(NODES, [whole]) if "Tesla-T4" in each.product}
    assert set(found.values()) == {"turing"}


def test_capacity_types_are_told_apart_by_the_label_of_the_cloud():
    nodes = [gpu(**{KIND: "on-demand"}), gpu("l4-1", **{KIND: "spot"})]
    assert only(nodes).capacity == {
        "on-demand": {"node_selector": {KIND: ["on-demand"]}},
        "spot": {"node_selector": {KIND: ["spot"]}},
    }
    marked = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
    unlabelled = only([gpu(taints=[TAINT, marked])])
    assert unlabelled.capacity == {"spot": {}}
    assert [each["key"] for each in unlabelled.tolerations] == ["nvidia.com/gpu"], (
        "spot pods have the other anyway"
    )


def test_taints_become_tolerations_but_not_those_of_a_nodes_state():
    taints = [
        TAINT,
        {"key": "dedicated", "value": "vision", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "cheap", "effect": "PreferNoSchedule"},
    ]
    assert only([gpu(taints=taints)]).tolerations == [
        {"key": "dedicated", "operator": "Equal", "value": "vision", "effect": "NoExecute"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]


def test_a_flavor_that_does_not_tolerate_the_taint_is_named_beside_it():
    flavor = replace(facts(only([gpu()])), tolerations=())
    assert only([gpu()], [flavor]).beside == ("l4",)
    assert only([gpu()], [flavor]).name == "l4-2"


def test_memory_is_of_one_unit():
    assert only([gpu()]).memory_gib == 22
    shared = gpu(resource="nvidia.com/gpu.shared", units=8, **{COUNT: "2", "nvidia.com/gpu.replicas": "4"})
    assert (only([shared]).memory_gib, only([shared]).gpu_fraction) == (5, Fraction(1, 4))
    assert only([gpu(resource="nvidia.com/mig-2g.20gb")]).memory_gib == 20


def test_other_vendors_are_selected_by_what_they_have():
    node = NodeFacts("mi-0", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, {"amd.com/gpu": 8})
    found = only([node])
    assert (found.name, found.resource, found.sharing) == ("mi300x", "amd.com/gpu", Sharing.NONE)
    bare = NodeFacts("x", {}, {"gpu.intel.com/i915": 1})
    assert (only([bare]).name, only([bare]).node_selector) == ("gpu", {})


@pytest.mark.parametrize("value", ["9" * 4000, "", "-1", "x", "0"])
def test_labels_that_make_no_sense_break_nothing(value):
    labels = dict.fromkeys(("nvidia.com/gpu.memory", "nvidia.com/gpu.replicas", COUNT, PRODUCT), value)
    node = gpu(resource="nvidia.com/gpu.shared", **labels)
    assert only([node]).gpu_fraction <= 1


def test_a_node_that_contradicts_itself_makes_no_flavor():
    assert proposals([gpu(**{"nvidia.com/gpu.slices.gi": "1"})], []) == []


def test_a_key_stays_while_other_nodes_come():
    assert only([gpu()]).key == only([gpu(), gpu("l4-1")]).key


def test_the_fields_hold_what_is_proposed():
    fields = written(only([gpu(**{KIND: "spot"})]))
    assert fields["labels"] == [
        {"key": PRODUCT, "values": "NVIDIA-L4", "kind": ""},
        {"key": KIND, "values": "spot", "kind": "spot"},
    ]
    assert fields["offered"] == [{"kind": "spot"}]
