"""Which flavors hold a model: the smallest that does, none smaller, and why the others do not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.demand import Demand, demand_of
from advisor.fitting import Fit, Isolation, Offered, UnitPool, counts_of, fits_of, message_of
from advisor.memory_sum import memory_sum
from tests.effort import drawn
from workloads.placement import FlavorFacts, Sharing


def offered(
    name: str = "a100-80gb",
    gib: int = 80,
    *,
    sharing: Sharing = Sharing.NONE,
    blocks: tuple[int, ...] = (8,),
    quota: int = 8,
    rate: int | None = 3_000_000,
) -> Offered:
    fraction = Fraction(1) if sharing is Sharing.NONE else Fraction(1, 7)
    facts = FlavorFacts(name, "nvidia.com/gpu", fraction, sharing, {}, [], {"on-demand": {}})
    pool = UnitPool(capacity_type="on-demand", blocks=blocks, quota=quota, rate_per_hour=rate)
    return Offered(facts=facts, memory_gib=gib, pools=(pool,))


SLICE = offered("a100-mig-1g.10gb", 10, sharing=Sharing.MIG, blocks=(7,))
TIMED = offered("t4-shared", 16, sharing=Sharing.TIME_SLICING, blocks=(4,))
MPS = offered("l4-mps", 12, sharing=Sharing.MPS, blocks=(4,))
A10G = offered("a10g", 24, blocks=(4, 4))
A100 = offered(blocks=(8, 8))
ALL = [A100, A10G, SLICE, TIMED, MPS]


def fits(text: str, flavors=ALL, *, isolation=Isolation.NONE, cards=None, **given) -> list[Fit]:
    return fits_of(demand_of({"text": text, **given}), flavors, isolation=isolation, cards=cards)


def one(text: str, flavor: Offered, **given) -> Fit:
    (fit,) = fits(text, [flavor], **given)
    return fit


def holding(found: list[Fit]) -> list[str]:
    return [fit.offered.facts.name for fit in found if fit.holds]


def test_the_smallest_comes_first():
    assert holding(fits("llama 2 7B int4")) == [
        "a100-mig-1g.10gb",
        "l4-mps",
        "t4-shared",
        "a10g",
        "a100-80gb",
    ]
    assert holding(fits("llama 2 7B fp16")) == ["a10g", "a100-80gb"]


def test_seventy_billion_in_16_bits_are_refused_on_one_card_and_held_by_two():
    alone = one("70B fp16", A100, cards=1)
    assert not alone.holds
    assert alone.refused == (
        "136.5 GiB are needed and one a100-80gb has 80 GiB, of which 72.0 are usable; 2 hold it."
    )
    both = one("70B fp16", A100)
    assert (both.count, both.places[0].units_each, both.places[0].replicas) == (2, 2, 1)
    assert both.places[0].rate_per_hour == 6_000_000
    assert message_of(demand_of({"text": "70B fp16"}), [both]) == (
        "One card would need 136.5 GiB, and none of the team's flavors holds that. "
        "2 a100-80gb together hold it, with 68.8 GiB on each."
    )


@pytest.mark.parametrize("shared", [TIMED, MPS])
@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_shared_flavor_is_never_offered_for_training(shared, isolation):
    fit = one("1M fp32 training sgd", shared, isolation=isolation)
    assert not fit.holds
    assert "share of a card" in fit.refused


@pytest.mark.parametrize(
    ("isolation", "held"),
    [
        (Isolation.NONE, {"a100-80gb", "a10g", "a100-mig-1g.10gb", "t4-shared", "l4-mps"}),
        (Isolation.MEMORY, {"a100-80gb", "a10g", "a100-mig-1g.10gb", "l4-mps"}),
        (Isolation.FULL, {"a100-80gb", "a10g", "a100-mig-1g.10gb"}),
    ],
)
def test_isolation_decides_what_may_be_shared(isolation, held):
    assert set(holding(fits("125M", isolation=isolation))) == held


def test_parts_of_a_card_do_not_work_together():
    fit = one("7B fp16", SLICE)
    assert (fit.holds, fit.count) == (False, 0)
    assert "one part of a card" in fit.refused
    assert "2 are asked for" in one("125M", SLICE, cards=2).refused


def test_more_cards_are_no_help_without_sharding_and_the_way_out_is_said():
    fit = one("7B bf16 training adam", A100)
    assert not fit.holds
    assert "without sharding each card holds it all; with sharding optimizer 3 hold it" in fit.refused
    assert one("7B bf16 training adam zero-1", A100).count == 3
    assert one("7B bf16 training adam zero-1", A100, cards=2).refused.endswith("; 3 hold it.")


def test_checkpointing_is_advised_where_it_is_enough():
    text = "1.3B bf16 training adam batch 16"
    fit = one(text, A10G)
    assert "with gradient checkpointing" in one("1.3B bf16 training adam batch 20", A100).refused
    assert "checkpointing" in fit.refused


def test_training_spreads_over_pods_of_equal_size():
    fit = one("3B bf16 training adam fsdp batch 2", offered("a10g", 24, blocks=(4, 4)))
    assert fit.count > 4
    (place,) = fit.places
    assert place.units == fit.count == place.units_each * place.replicas
    assert place.units_each <= 4
    assert place.nodes <= 2


def test_served_units_must_be_on_one_node():
    fit = one("llama 2 70B fp16", A10G)
    assert not fit.holds
    assert fit.refused == "It needs 8 units in one pod, and the largest node holds 4."


def test_a_gang_larger_than_all_nodes_is_refused():
    fit = one("7B bf16 training adam fsdp", A10G)
    assert not fit.holds
    assert "all nodes together hold" in fit.refused


def test_exactly_so_many_are_spread_evenly_or_not_at_all():
    small = "125M bf16 training adam"
    fit = one(small, offered(blocks=(8, 8, 8)), cards=9)
    assert (fit.count, fit.places[0].units_each, fit.places[0].replicas) == (9, 3, 3)
    fit = one(small, offered(blocks=(8, 8)), cards=11)
    assert (fit.count, fit.places[0].units_each, fit.places[0].replicas, fit.places[0].nodes) == (
        11,
        1,
        11,
        2,
    )


def test_no_node_and_no_known_memory_are_said():
    assert one("125M", offered(blocks=())).refused == "No node offers it, and none may come."
    assert "is not known" in one("125M", offered(gib=0)).refused


def test_more_than_the_quota_is_offered_and_marked():
    (place,) = one("70B fp16", offered(quota=1)).places
    assert (place.refused, place.within_quota) == ("", False)


def test_without_a_price_there_is_no_rate_and_the_priced_one_comes_first():
    free, paid = offered("b-free", rate=None), offered("c-paid", rate=1)
    found = fits("7B fp16", [free, paid])
    assert [fit.offered.facts.name for fit in found] == ["c-paid", "b-free"]
    assert found[1].places[0].rate_per_hour is None


def test_one_large_card_is_named_beside_two_small_ones_with_less_memory():
    found = fits("llama 2 13B fp16", [A100, A10G])
    assert [(fit.offered.facts.name, fit.count) for fit in found] == [("a10g", 2), ("a100-80gb", 1)]
    said = message_of(demand_of({"text": "llama 2 13B fp16"}), found)
    assert "which one a100-80gb holds. Less memory in all: 2 a10g together hold it" in said


def test_nothing_offered_is_said():
    demand = demand_of({"text": "7B"})
    assert message_of(demand, []).endswith("The team has no quota for any flavor.")
    assert message_of(demand, fits("7B", [SLICE])).endswith("None of the team's flavors holds it.")


@st.composite
def questions(draw) -> tuple[Demand, Offered]:
    given_fields = {
        "parameters": draw(st.integers(10**7, 10**12)),
        "purpose": draw(st.sampled_from(["training", "inference"])),
        "batch_size": draw(st.integers(1, 32)),
    }
    if given_fields["purpose"] == "training":
        given_fields["sharding"] = draw(st.sampled_from(["none", "optimizer", "gradients", "full"]))
    else:
        given_fields["precision"] = draw(st.sampled_from(["fp32", "bf16", "int8", "int4"]))
    gib, sharing = draw(st.integers(1, 192)), draw(st.sampled_from([Sharing.NONE, Sharing.MIG]))
    return demand_of(given_fields), offered(gib=gib, sharing=sharing, blocks=(8,) * 512)


@settings(max_examples=drawn(usual=25, soak=2_000))
@given(questions())
def test_the_advised_count_holds_and_no_smaller_one_does(question):
    demand, flavor = question

    def held(count: int) -> bool:
        return memory_sum(demand, cards=count).total_bytes <= flavor.usable_bytes

    (fit,) = fits_of(demand, [flavor], isolation=Isolation.FULL)
    counts = list(counts_of(demand, flavor))
    smallest = next((count for count in counts if held(count)), 0)
    if fit.holds:
        assert held(fit.count)
        assert fit.unit_bytes == memory_sum(demand, cards=fit.count).total_bytes
        # Pods of equal size may take one or the other unit more.
        assert smallest <= fit.count < smallest + fit.places[0].replicas
    else:
        assert smallest == 0 or (smallest > 8 and not demand.trains)
        assert fit.refused


@settings(max_examples=100)
@given(questions(), st.permutations(ALL))
def test_the_order_of_flavors_changes_nothing(question, order):
    demand, _ = question
    assert fits_of(demand, order, isolation=Isolation.NONE) == fits_of(demand, ALL, isolation=Isolation.NONE)


GIB = 1024**3


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([(32_000, 100 * GIB)], ""),
        ([(None, None)], ""),
        ([()], ""),
        ([(32_000, 99 * GIB)], "100Gi of memory where that is left out, and beside pods of others no node has more than 99Gi"),
        ([(31_000, 100 * GIB)], "32 cores where that is left out, and beside pods of others no node has more than 31"),
        ([(31_000, 100 * GIB), (32_000, 99 * GIB)], "32 cores and 100Gi of memory where that is left out, and beside pods of others too few nodes have both"),
    ],
)  # fmt: skip
def test_what_nodes_lack_beside_their_cards_is_said(others, said):
    (pool,) = offered(blocks=(8,) * len(others)).pools
    pool = replace(pool, others=tuple(others), share=lambda units: (16_000 * units, 50 * GIB * units))
    fit = one("70B fp16", replace(A100, pools=(pool,)))
    assert fit.holds
    assert fit.places[0].share == (32_000, 100 * GIB)
    assert said in fit.places[0].lacks
    assert bool(said) == bool(fit.places[0].lacks)
