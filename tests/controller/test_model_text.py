from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.demand import demand_of
from advisor.model_text import GRAMMAR, read_text
from foundation.errors import Invalid


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7B fp16", {"parameters": 7 * 10**9, "precision": "fp16"}),
        (
            "70b bf16 training adam",
            {"parameters": 70 * 10**9, "precision": "bf16", "purpose": "training", "optimizer": "adam"},
        ),
        (
            "llama 13B int4 inference",
            {"family": "llama", "parameters": 13 * 10**9, "precision": "int4", "purpose": "inference"},
        ),
        ("Llama-2-7b, half", {"family": "llama 2", "parameters": 7 * 10**9, "precision": "fp16"}),
        ("llama3.1-8b", {"family": "llama 3", "parameters": 8 * 10**9}),
        ("qwen2.5 0.5B 8-bit", {"family": "qwen", "parameters": 500_000_000, "precision": "int8"}),
        (
            "350M train zero-3 batch 8",
            {"parameters": 350_000_000, "purpose": "training", "sharding": "full", "batch_size": 8},
        ),
        ("1T seq=4096 adamw-8bit", {"parameters": 10**12, "sequence_length": 4096, "optimizer": "adam-8bit"}),
        (
            "mistral 7 B context 32768",
            {"family": "mistral", "parameters": 7 * 10**9, "sequence_length": 32768},
        ),
        (
            "fsdp 1.3b checkpointing",
            {"parameters": 1_300_000_000, "sharding": "full", "gradient_checkpointing": True},
        ),
        ("7B 7b fp16 float16", {"parameters": 7 * 10**9, "precision": "fp16"}),
    ],
)
def test_words_are_read(text, found):
    assert read_text(text) == found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "No size"),
        ("fp16", "No size"),
        ("7B quickly", "“quickly”"),
        ("7B fp16 int4", "“int4” contradicts “fp16”"),
        ("7B 13B", "“13B” contradicts"),
        ("0B", "0B is not a number"),
        ("99T", "99T is not a number"),
        ("7", "“7”"),
        ("7Bfp16", "“7bfp16”"),
        ("llama 4 7B", "version 4"),
        ("7B batch 0", "batch 0 is not between"),
        ("7B seq 999999999", "is not between"),
        ("\uff11B", "“\uff11b”"),
        ("7B; DROP TABLE", "“drop”"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_word_and_the_grammar(text, named):
    with pytest.raises(Invalid) as refused:
        read_text(text)
    (problem,) = refused.value.errors
    assert problem.field == "text"
    assert problem.code == "not_understood"
    assert named in problem.message
    assert problem.message.endswith(GRAMMAR)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        found = read_text(text)
    except Invalid as error:
        found, fields = {}, [problem.field for problem in error.errors]
    else:
        fields = []
    assert fields == ([] if found else ["text"])
    assert found.get("parameters", 1) > 0


def test_a_field_outweighs_the_same_word():
    demand = demand_of({"text": "7B fp16", "precision": "int4", "parameters": 3 * 10**9})
    assert (demand.precision, demand.parameters) == ("int4", 3 * 10**9)


@pytest.mark.parametrize(
    ("text", "shape", "parameters"),
    [
        ("7B", "OPT-6.7B", 7 * 10**9),
        ("llama 7B", "Llama 2 7B", 6_738_415_616),
        ("llama 8B", "Llama 3.1 8B", 8_030_261_248),
        ("llama 2 70B", "Llama 2 70B", 68_976_648_192),
        ("600B", "Megatron 530B", 600 * 10**9),
        ("1M", "OPT-125M", 10**6),
    ],
)
def test_a_size_stands_for_the_nearest_published_model(text, shape, parameters):
    demand = demand_of({"text": text})
    assert (demand.shape.name, demand.parameters) == (shape, parameters)


@pytest.mark.parametrize(
    ("text", "purpose"),
    [("7B", "inference"), ("7B adam", "training"), ("7B zero-1", "training"), ("7B int4", "inference")],
)
def test_what_only_training_has_makes_it_training(text, purpose):
    assert demand_of({"text": text}).purpose == purpose
