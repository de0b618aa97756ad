from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.policy import Demand, Outcome, QuotaFacts, Supply, Waiter, judge
from tests.quotas import node_sets as sets
from workloads.states import REASONS, Phase, Reason

DEMAND = Demand(team="vision", flavor=sets.A100_40GB, capacity_type="on-demand", units_each=8, replicas=1)


def supply(nominal=32, used=0, ahead=(), nodes=sets.NODES):
    waiters = [Waiter(str(index), units) for index, units in enumerate(ahead)]
    return Supply(quota=QuotaFacts(nominal, used), nodes=nodes, ahead=waiters)


@pytest.mark.parametrize(
    ("demand", "given_supply", "outcome", "reason", "says"),
    [
        (DEMAND, supply(), "admit", Reason.CREATING, "will use 8 of 32 a100-40gb (on-demand)"),
        (DEMAND, supply(32, 24), "admit", Reason.CREATING, "will use 32 of 32"),
        (DEMAND, supply(32, 25), "wait", Reason.WAITING_FOR_QUOTA, "uses 25 of 32 a100-40gb (on-demand); this run needs 8."),
        (DEMAND, supply(4, 12), "wait", Reason.EXCEEDS_MAX_QUOTA, "needs 8 a100-40gb (on-demand); the quota of team vision is 4."),
        (DEMAND, supply(8, 12), "wait", Reason.WAITING_FOR_QUOTA, "uses 12 of 8"),
        (DEMAND, supply(0), "wait", Reason.EXCEEDS_MAX_QUOTA, "is 0."),
        (DEMAND, supply(32, 0, [8, 16]), "wait", Reason.WAITING_FOR_QUOTA, "uses 0 of 32 a100-40gb (on-demand); 2 before this run in the queue need 24."),
        (replace(DEMAND, replicas=5), supply(), "wait", Reason.EXCEEDS_MAX_QUOTA, "needs 40"),
        (replace(DEMAND, units_each=9), supply(), "never", Reason.NO_MATCHING_FLAVOR, "No node can hold 9 a100-40gb (on-demand) in one pod. Nodes that exist: 4 with 8"),
        (DEMAND, supply(nodes=[]), "never", Reason.NO_MATCHING_FLAVOR, "No node offers a100-40gb."),
        (replace(DEMAND, capacity_type="reserved"), supply(), "never", Reason.NO_MATCHING_FLAVOR, "has no capacity type reserved; it has: on-demand, spot."),
        (DEMAND, replace(supply(), quota=None), "never", Reason.NO_MATCHING_FLAVOR, "Team vision has no quota for a100-40gb (on-demand)."),
        (replace(DEMAND, units_each=0), replace(supply(), quota=None, nodes=()), "admit", Reason.CREATING, "asks for no GPU"),
        (replace(DEMAND, flavor=None), replace(supply(), quota=None, nodes=()), "admit", Reason.CREATING, "asks for no GPU"),
    ],
)  # fmt: skip
def test_each_judgement_with_its_reason_and_its_numbers(demand, given_supply, outcome, reason, says):
    judgement = judge(demand, given_supply)
    assert (judgement.outcome.value, judgement.reason) == (outcome, reason)
    assert says in judgement.message


@pytest.mark.parametrize(
    ("demand", "given_supply", "field"),
    [
        (replace(DEMAND, capacity_type="reserved"), supply(), "capacity"),
        (DEMAND, replace(supply(), quota=None), "flavor"),
        (replace(DEMAND, units_each=9), supply(), "gpus_per_replica"),
    ],
)
def test_a_refusal_names_the_field_to_change(demand, given_supply, field):
    assert judge(demand, given_supply).field == field


def test_a_gang_larger_than_a_node_is_fine_while_each_pod_fits():
    assert judge(replace(DEMAND, replicas=4), supply()).admitted


demands = st.builds(
    Demand,
    team=st.just("vision"),
    flavor=st.sampled_from([None, sets.A100_40GB, sets.T4, sets.MIG_MIXED, sets.MIG_SINGLE]),
    capacity_type=st.sampled_from(["on-demand", "spot"]),
    units_each=st.integers(0, 60),
    replicas=st.integers(1, 10),
)
supplies = st.builds(
    Supply,
    quota=st.none() | st.builds(QuotaFacts, nominal=st.integers(0, 64), used=st.integers(0, 64)),
    nodes=st.lists(st.sampled_from(sets.NODES), unique_by=lambda node: node.name),
    ahead=st.lists(st.builds(Waiter, public_id=st.uuids().map(str), units=st.integers(1, 9)), max_size=3),
)


@given(demands, supplies)
def test_nothing_is_ever_admitted_beyond_its_quota_its_turn_or_its_nodes(demand, given_supply):
    judgement = judge(demand, given_supply)
    phase = Phase.ADMITTED if judgement.admitted else Phase.QUEUED
    assert judgement.reason in REASONS[phase]
    assert judgement == judge(demand, given_supply)
    assert judgement.message.endswith(".")
    assert (judgement.outcome is Outcome.NEVER) == bool(judgement.field)
    if judgement.admitted and demand.units and demand.flavor:
        assert given_supply.quota is not None
        assert given_supply.quota.used + demand.units <= given_supply.quota.nominal
        assert not given_supply.ahead


@given(demands, supplies, st.randoms())
def test_the_order_of_nodes_changes_no_word(demand, given_supply, random):
    nodes = list(given_supply.nodes)
    random.shuffle(nodes)
    assert judge(demand, given_supply) == judge(demand, replace(given_supply, nodes=nodes))


@given(demands, supplies)
def test_more_quota_never_makes_it_worse(demand, given_supply):
    if given_supply.quota is None:
        return
    order = [Outcome.NEVER, Outcome.WAIT, Outcome.ADMIT]
    more = replace(given_supply, quota=replace(given_supply.quota, nominal=given_supply.quota.nominal + 10))
    assert order.index(judge(demand, more).outcome) >= order.index(judge(demand, given_supply).outcome)
