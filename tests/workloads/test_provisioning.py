"""Nodes that do not exist yet: which NodePools would make them for a flavor, and how many."""

from __future__ import annotations

import pytest

from tests.quotas import node_sets as sets
from tests.quotas.node_sets import COUNT_REQUIREMENT as COUNT
from tests.quotas.node_sets import needs, pool, provisionable
from workloads.provisioning import brings, remaining

CAPACITY = "karpenter.sh/capacity-type"


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"labels": {sets.PRODUCT: "Tesla-T4"}}, False),
        ({"labels": {}}, False),  # no node of it would have the product's label, whatever it is
        ({"labels": {}, "requirements": [needs(sets.PRODUCT, "In", "Tesla-T4", sets.A100)]}, True),
        ({"labels": {}, "requirements": [needs(sets.PRODUCT, "NotIn", sets.A100)]}, False),
        ({"labels": {}, "requirements": [needs(sets.PRODUCT, "Exists")]}, True),
        ({"labels": {}, "requirements": [needs(sets.PRODUCT, "DoesNotExist")]}, False),
        ({"requirements": [needs(CAPACITY, "In", "spot", "on-demand")]}, True),
        ({"requirements": [needs(CAPACITY, "In", "spot")]}, False),
        (
            {"requirements": [needs(CAPACITY, "In", "on-demand"), needs(CAPACITY, "NotIn", "on-demand")]},
            False,
        ),
        ({"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}, False),
        ({"taints": [{"key": "dedicated", "effect": "PreferNoSchedule"}]}, True),
    ],
)
def test_a_node_pool_counts_where_karpenter_would_make_its_nodes_for_the_flavor(changes, fits):
    assert brings(pool(**changes), sets.A100_40GB, "on-demand") is fits


def test_numbers_in_requirements_are_compared_as_karpenter_does():
    asks = sets.flavor("x", capacity={"on-demand": {"node_selector": {COUNT: ["4"]}}})
    for term, fits in (
        (needs(COUNT, "Gt", "3"), True),
        (needs(COUNT, "Gt", "4"), False),
        (needs(COUNT, "Gte", "4"), True),
        (needs(COUNT, "Lt", "4"), False),
        (needs(COUNT, "Lte", "4"), True),
        (needs(COUNT, "Gt", "many"), False),
    ):
        assert brings(pool(requirements=[term]), asks, "on-demand") is fits, term


def test_a_pool_of_cpu_nodes_brings_no_gpu_and_a_flavor_may_name_its_pool():
    loose = sets.flavor("loose", capacity={"on-demand": {"node_selector": {CAPACITY: ["on-demand"]}}})
    cpus = pool(labels={}, limits={}, taints=[])
    assert not brings(cpus, loose, "on-demand")
    assert brings(pool(labels={}, limits={}, requirements=[needs(COUNT, "Exists")]), loose, "on-demand")
    named = sets.flavor(
        "named", capacity={"on-demand": {"node_selector": {"karpenter.sh/nodepool": ["gpus"]}}}
    )
    assert brings(pool(), named, "on-demand")
    assert not brings(pool(name="others"), named, "on-demand")


def test_what_may_come_is_never_negative_and_never_without_a_block():
    """Over every mixture of declared, limited and existing."""
    for declared in (None, (8, 8), (8, 64)):
        for limit in (None, 0, 8, 100):
            for exists in (0, 8, 200):
                flavor = sets.flavor("x", products=[sets.A100], capacity={
                    "on-demand": provisionable(*declared) if declared else {}})  # fmt: skip
                there = [sets.NodeFacts("n", {sets.PRODUCT: sets.A100}, {sets.GPU: exists})] if exists else []
                pools = [] if limit is None else [pool(limits={sets.GPU: limit}, in_use={sets.GPU: exists})]
                block, units = remaining(flavor, "on-demand", there, pools)
                assert units >= 0
                assert block > 0 or units == 0
                if declared:
                    assert units <= max(0, declared[1] - exists)
                if limit is not None:
                    assert units <= max(0, limit - exists)
