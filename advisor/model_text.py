"""A model described in a few words, such as "llama 13B int4 inference" (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from foundation.errors import Invalid

TEXT_LENGTH_MAX = 200
PARAMETERS_MIN = 1_000
PARAMETERS_MAX = 10 * 10**12
SEQUENCE_MAX = 10_000_000
BATCH_MAX = 1_000_000
GRAMMAR = (
    "Write a size such as 7B or 350M and, in any order: a family (llama 2, llama 3, mistral, opt, qwen), a precision "
    "(fp32, tf32, bf16, fp16, fp8, int8, int4), training or inference, an optimizer (sgd, momentum, adam, adamw, "
    'adam-8bit, adafactor), "seq 4096", "batch 8", zero-1, zero-2, zero-3 or fsdp, checkpointing.'
)


class Purpose(StrEnum):
    TRAINING = "training"
    INFERENCE = "inference"


class Precision(StrEnum):
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


class Optimizer(StrEnum):
    NONE = "none"
    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    ADAMW = "adamw"
    ADAM_8BIT = "adam-8bit"
    ADAFACTOR = "adafactor"


class Sharding(StrEnum):
    """What data-parallel cards divide among them: the stages of ZeRO; FSDP's full sharding is the last."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    GRADIENTS = "gradients"
    FULL = "full"


_WORDS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "purpose": {
        **dict.fromkeys(("training", "train", "finetuning", "finetune"), Purpose.TRAINING),
        **dict.fromkeys(("inference", "serving", "serve"), Purpose.INFERENCE),
    },
    "precision": {
        **{precision.value: precision for precision in Precision},
        **dict.fromkeys(("float32", "32bit"), Precision.FP32),
        **dict.fromkeys(("bfloat16",), Precision.BF16),
        **dict.fromkeys(("float16", "half", "16bit"), Precision.FP16),
        **dict.fromkeys(("8bit",), Precision.INT8),
        **dict.fromkeys(("4bit",), Precision.INT4),
    },
    "optimizer": {
        **{optimizer.value: optimizer for optimizer in Optimizer if optimizer is not Optimizer.NONE},
        **dict.fromkeys(("adam8bit", "8bitadam", "adamw8bit"), Optimizer.ADAM_8BIT),
    },
    "sharding": {
        **dict.fromkeys(("zero1",), Sharding.OPTIMIZER),
        **dict.fromkeys(("zero2",), Sharding.GRADIENTS),
        **dict.fromkeys(("zero3", "fsdp"), Sharding.FULL),
    },
    "gradient_checkpointing": dict.fromkeys(("checkpointing", "recomputation"), True),
})  # fmt: skip
_SIZE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s?([kmbt])(?![a-z0-9])")
_SUFFIX = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
# The digit after the name is a version only where no size begins with it.
_FAMILY = re.compile(r"\b(llama|mistral|opt|qwen)(?:[- ]?([0-9](?:\.[0-9])?)(?=[\s,;_-]|$)(?! [kmbt]\b))?")
_COUNTED = re.compile(r"\b(seq|sequence|context|batch)[ =:]*([0-9]{1,9})(?![0-9a-z.])")
_COUNTS = {
    "seq": "sequence_length",
    "sequence": "sequence_length",
    "context": "sequence_length",
    "batch": "batch_size",
}
_SEPARATORS = re.compile(r"[\s,;/_]+")
_FAMILY_OF = {
    "llama": {
        "": "llama",
        "2": "llama 2",
        "3": "llama 3",
        "3.1": "llama 3",
        "3.2": "llama 3",
        "3.3": "llama 3",
    },
    "mistral": {"": "mistral"},
    "opt": {"": "opt"},
    "qwen": {"": "qwen", "2.5": "qwen"},
}


def read_text(text: str) -> dict[str, Any]:
    """The fields that the words say: `parameters` at least, and `family` where one is named.

    Invalid names `text`, with the word that is not understood and the grammar.
    """
    rest = text.lower()
    fields: dict[str, Any] = {}
    rest = _take_family(rest, fields)
    rest = _take_counts(rest, fields)
    rest = _take_size(rest, fields)
    for word in filter(None, _SEPARATORS.split(rest)):
        _take_word(word.strip("-"), word, fields)
    if "parameters" not in fields:
        raise _unread(f"No size stands in {_quoted(text)}.")
    return fields


def _take_family(text: str, fields: dict[str, Any]) -> str:
    match = _FAMILY.search(text)
    if match is None:
        return text
    name, version = match[1], match[2] or ""
    if version not in _FAMILY_OF[name]:
        raise _unread(f"Of {name} version {version} no sizes are known; give layers and hidden_size.")
    fields["family"] = _FAMILY_OF[name][version]
    return f"{text[: match.start()]} {text[match.end() :]}"


def _take_counts(text: str, fields: dict[str, Any]) -> str:
    for name, figures in _COUNTED.findall(text):
        most = SEQUENCE_MAX if _COUNTS[name] == "sequence_length" else BATCH_MAX
        if not 1 <= int(figures) <= most:
            raise _unread(f"{name} {figures} is not between 1 and {most}.")
        _put(fields, _COUNTS[name], int(figures), f"{name} {figures}")
    return _COUNTED.sub(" ", text)


def _take_size(text: str, fields: dict[str, Any]) -> str:
    for figures, suffix in _SIZE.findall(text):
        size = Decimal(figures) * _SUFFIX[suffix]
        if size != int(size) or not PARAMETERS_MIN <= size <= PARAMETERS_MAX:
            raise _unread(f"{figures}{suffix.upper()} is not a number of parameters from 1K to 10T.")
        _put(fields, "parameters", int(size), f"{figures}{suffix.upper()}")
    return _SIZE.sub(" ", text)


def _take_word(bare: str, word: str, fields: dict[str, Any]) -> None:
    # `zero-3`, `8-bit`, `adam-8bit`: with the hyphen or without it.
    for name, words in _WORDS.items():
        for spelling in (bare, bare.replace("-", "")):
            if spelling in words:
                _put(fields, name, words[spelling], word)
                return
    if bare:
        raise _unread(f"{_quoted(word)} is not understood.")


def _put(fields: dict[str, Any], name: str, value: Any, word: str) -> None:
    if name in fields and fields[name] != value:
        raise _unread(
            f"{_quoted(word)} contradicts {_quoted(str(fields[name]))}: say one {name.replace('_', ' ')}."
        )
    fields[name] = value


def _quoted(text: str) -> str:
    return f"“{text[:40]}”"


def _unread(what: str) -> Exception:
    return Invalid.of_field("text", f"{what} {GRAMMAR}", code="not_understood")
