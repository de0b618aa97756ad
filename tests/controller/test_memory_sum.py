"""The memory sum against published figures, and by its properties."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.architectures import BY_SIZE, NAMED, Architecture
from advisor.demand import Demand, demand_of
from advisor.memory_sum import CONTEXT_BYTES, GIB, SOURCES, MemorySum, memory_sum
from foundation.errors import Invalid
from tests.tables import each_row

GB = 10**9
STATES = ("weights", "gradients", "master_weights", "optimizer")


def of(text: str = "", *, cards: int = 1, **given) -> MemorySum:
    return memory_sum(demand_of({**({"text": text} if text else {}), **given}), cards=cards)


def size(total: MemorySum, *names: str) -> int:
    return sum(term.bytes for term in total.terms if term.name in names)


def counted(shape: Architecture) -> int:
    """Parameters of the architecture, from its matrices, norms and biases."""
    hidden, kv, inside = shape.hidden, shape.kv_heads * shape.head_size, shape.feed_forward
    if not shape.gated:
        biases_and_norms = 4 * hidden + (hidden + inside) + 4 * hidden
        ends = 2 * hidden + (2050 if shape.family == "opt" else 2048) * hidden
        return shape.layers * (12 * hidden**2 + biases_and_norms) + shape.embeddings + ends
    biases = hidden + 2 * kv if shape.family == "qwen" else 0
    layer = 2 * hidden**2 + 2 * hidden * kv + 3 * hidden * inside + 2 * hidden + biases
    return shape.layers * layer + shape.embeddings + hidden


@each_row("shape", {each.name: each for each in (*NAMED, *BY_SIZE)}.values())
def test_the_shape_of_a_published_model_makes_its_published_number_of_parameters(shape):
    if shape.name.startswith("Megatron"):  # published as 529.6 and 1008.0 billion
        assert abs(counted(shape) / shape.parameters - 1) < 0.002
    else:
        assert counted(shape) == shape.parameters


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32", "tf32"])
def test_adam_takes_sixteen_bytes_for_each_parameter(optimizer, precision):
    total = of(parameters=GB, purpose="training", optimizer=optimizer, precision=precision)
    assert size(total, *STATES) == 16 * GB


@pytest.mark.parametrize(
    ("optimizer", "each"), [("sgd", 0), ("momentum", 4), ("adam", 8), ("adam-8bit", 2.03125)]
)
def test_each_optimizer_takes_what_its_paper_says(optimizer, each):
    assert size(of("1B training", optimizer=optimizer), "optimizer") == each * GB


def test_a_factored_second_moment_takes_a_row_and_a_column_of_each_matrix():
    total = of(layers=2, hidden_size=256, vocabulary_size=1000, optimizer="adafactor")
    layer = 4 * (256 + 256) + 2 * (256 + 1024)
    assert size(total, "optimizer") == 4 * (2 * layer + 1000 + 256)


def test_states_are_as_wide_as_weights_without_a_copy_in_fp32():
    total = of("1B bf16 training adam", master_weights=False)
    assert size(total, *STATES) == 8 * GB


@pytest.mark.parametrize(
    ("sharding", "published"), [("none", 120), ("optimizer", 31.4), ("gradients", 16.6), ("full", 1.9)]
)
def test_the_states_of_7_5_billion_parameters_on_64_cards_are_those_of_the_zero_paper(sharding, published):
    total = of(parameters=7_500_000_000, optimizer="adam", sharding=sharding, cards=64)
    assert round(size(total, *STATES) / GB, 1) == published


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ("llama 2 7B fp16", 13.48),
        ("llama-2-70b bf16", 137.95),
        ("llama 2 7b fp32", 26.95),
        # Files of AWQ with groups of 128, and of FP8 with embeddings in 16 bits.
        ("llama 2 7B int4", 3.89),
        ("llama 2 13B int4", 7.25),
        ("llama 2 70B int4", 36.61),
        ("mistral 7B int4", 4.15),
        ("llama 3.1 8B fp8", 9.08),
    ],
)
def test_weights_are_as_large_as_the_files_that_were_published(text, published):
    assert round(size(of(text), "weights") / GB, 2) == published


@pytest.mark.parametrize(
    ("text", "published"),
    [("llama 2 7B fp16", 524_288), ("llama 2 13B fp16", 819_200), ("llama 3 70B bf16", 327_680)],
)
def test_the_cache_takes_the_published_bytes_for_each_token(text, published):
    assert size(of(text, sequence_length=1, batch_size=1), "kv_cache") == published
    assert size(of(text, sequence_length=4096, batch_size=3), "kv_cache") == 3 * 4096 * published


def test_activations_are_those_of_the_paper_on_recomputation():
    # 34 sbh + 5 a s² b a layer of GPT-3, and 2 sbh of each layer with full recomputation.
    gpt3 = {"parameters": 175 * GB, "purpose": "training", "sequence_length": 2048}
    sbh = 2048 * 12288
    assert size(of(**gpt3), "activations") == 96 * 34 * sbh
    plain = size(of(**gpt3, fused_attention=False), "activations")
    assert plain == 96 * (34 * sbh + 5 * 96 * 2048**2)
    full = size(of(**gpt3, gradient_checkpointing=True), "activations")
    assert full == 96 * 2 * sbh + 34 * sbh


def test_the_default_shape_of_a_larger_model_is_never_smaller():
    for small, large in pairwise(BY_SIZE):
        assert small.parameters < large.parameters
        assert small.layers <= large.layers
        assert small.hidden <= large.hidden
        assert (
            small.layers * small.kv_heads * small.head_size < large.layers * large.kv_heads * large.head_size
        )


FIELDS = st.fixed_dictionaries({
    "parameters": st.integers(10**6, 10**12),
    "purpose": st.sampled_from(["training", "inference"]),
    "precision": st.sampled_from(["fp32", "tf32", "bf16", "fp16"]),
    "sequence_length": st.integers(1, 100_000),
    "batch_size": st.integers(1, 256),
    "fused_attention": st.booleans(),
})  # fmt: skip
TRAINING = st.fixed_dictionaries({
    "optimizer": st.sampled_from(["sgd", "momentum", "adam", "adamw", "adam-8bit", "adafactor"]),
    "sharding": st.sampled_from(["none", "optimizer", "gradients", "full"]),
    "gradient_checkpointing": st.booleans(),
})  # fmt: skip


@st.composite
def demands(draw) -> tuple[dict, Demand]:
    given = draw(FIELDS)
    if given["purpose"] == "training":
        given |= draw(TRAINING)
    else:
        given["precision"] = draw(st.sampled_from([given["precision"], "fp8", "int8", "int4"]))
    return given, demand_of(given)


@settings(max_examples=200)
@given(demands(), st.integers(1, 512))
def test_terms_are_positive_named_once_and_add_up(drawn, cards):
    total = memory_sum(drawn[1], cards=cards)
    assert total.total_bytes == sum(term.bytes for term in total.terms)
    assert all(term.bytes > 0 for term in total.terms)
    assert len({term.name for term in total.terms}) == len(total.terms)
    assert {term.source for term in total.terms} <= set(SOURCES)
    assert total.terms[-1].bytes == CONTEXT_BYTES


@settings(max_examples=200)
@given(demands(), st.sampled_from(["parameters", "sequence_length", "batch_size"]), st.integers(1, 10**9))
def test_more_of_anything_never_needs_less(drawn, name, more):
    given_fields, demand = drawn
    larger = demand_of({**given_fields, name: given_fields[name] + more % (9 * given_fields[name]) + 1})
    assert memory_sum(larger).total_bytes >= memory_sum(demand).total_bytes


@settings(max_examples=200)
@given(demands(), st.integers(2, 511))
def test_a_further_card_never_needs_more_on_each(drawn, cards):
    demand = drawn[1]
    assert memory_sum(demand, cards=cards + 1).total_bytes <= memory_sum(demand, cards=cards).total_bytes


@settings(max_examples=100)
@given(demands())
def test_each_saving_saves(drawn):
    given_fields, demand = drawn
    total = memory_sum(demand, cards=8).total_bytes
    fused = demand_of({**given_fields, "fused_attention": True})
    assert memory_sum(fused, cards=8).total_bytes <= total
    if demand.trains:
        stages = ["none", "optimizer", "gradients"]
        sums = [
            memory_sum(demand_of({**given_fields, "sharding": each}), cards=8).total_bytes for each in stages
        ]
        assert sums == sorted(sums, reverse=True)
        kept = demand_of({**given_fields, "gradient_checkpointing": True})
        assert (
            memory_sum(kept, cards=8).total_bytes
            <= memory_sum(demand_of({**given_fields, "gradient_checkpointing": False}), cards=8).total_bytes
        )


def test_figures_are_the_formula_with_its_numbers():
    terms = {term.name: term for term in of("7B bf16 training adam zero-3", cards=4).terms}
    assert terms["weights"].formula == "parameters × 2 B ÷ cards"  # noqa: RUF001
    assert terms["weights"].figures == "7,000,000,000 × 2 ÷ 4"  # noqa: RUF001
    assert terms["weights"].bytes == 3_500_000_000
    assert terms["context"].bytes == GIB


@pytest.mark.parametrize(
    ("given_fields", "field"),
    [
        ({}, "parameters"),
        ({"layers": 32}, "hidden_size"),
        ({"hidden_size": 4096}, "layers"),
        ({"parameters": GB, "purpose": "training", "precision": "int4"}, "precision"),
        ({"parameters": GB, "purpose": "training", "optimizer": "none"}, "optimizer"),
        ({"parameters": GB, "purpose": "inference", "optimizer": "adam"}, "optimizer"),
        ({"parameters": GB, "purpose": "inference", "sharding": "full"}, "sharding"),
        (
            {"parameters": GB, "purpose": "inference", "gradient_checkpointing": True},
            "gradient_checkpointing",
        ),
        ({"parameters": GB, "master_weights": True}, "master_weights"),
        (
            {"parameters": GB, "optimizer": "adam", "precision": "fp32", "master_weights": True},
            "master_weights",
        ),
        ({"parameters": GB, "attention_heads": 7}, "attention_heads"),
        ({"parameters": GB, "kv_heads": 5}, "kv_heads"),
        ({"layers": 10_000, "hidden_size": 1_000_000}, "hidden_size"),
        ({"text": "llama 30B"}, "text"),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_refused_by_its_name(given_fields, field):
    with pytest.raises(Invalid) as refused:
        demand_of(given_fields)
    assert [problem.field for problem in refused.value.errors] == [field]
