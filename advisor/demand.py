"""What a user wants to train or serve, with all that they left out filled in (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from advisor.architectures import Architecture, by_size, members, of_family, of_shape, parameters_of
from advisor.model_text import (
    PARAMETERS_MAX,
    PARAMETERS_MIN,
    Optimizer,
    Precision,
    Purpose,
    Sharding,
    read_text,
)
from foundation.errors import Invalid

SEQUENCE_LENGTH = 2048
BATCH_SIZE = 1
FLOATS = frozenset({Precision.FP32, Precision.TF32, Precision.BF16, Precision.FP16})
HALVES = frozenset({Precision.BF16, Precision.FP16})


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A model and what is done with it. `batch_size` counts sequences: in training those that one card works on at
    a time, in inference those that are being answered at once.
    """

    parameters: int
    shape: Architecture
    shape_is: str
    """Where the shape comes from, as a sentence."""
    purpose: Purpose = Purpose.INFERENCE
    precision: Precision = Precision.BF16
    optimizer: Optimizer = Optimizer.NONE
    sequence_length: int = SEQUENCE_LENGTH
    batch_size: int = BATCH_SIZE
    sharding: Sharding = Sharding.NONE
    gradient_checkpointing: bool = False
    fused_attention: bool = True
    """Whether attention is computed without storing its scores, as FlashAttention does."""
    master_weights: bool = False
    """Whether training in 16 bits keeps weights in fp32 as well, as mixed precision does."""

    @property
    def trains(self) -> bool:
        return self.purpose is Purpose.TRAINING


def demand_of(request: Mapping[str, Any]) -> Demand:
    """The demand of a checked request body: a field that is given outweighs the same word of `text`.

    Invalid names the field that is missing or contradicts another one.
    """
    text = request.get("text")
    words = read_text(text) if text else {}
    values = {**words, **{name: value for name, value in request.items() if value is not None}}
    purpose = _purpose(values)
    precision = Precision(values.get("precision", Precision.BF16))
    if purpose is Purpose.TRAINING and precision not in FLOATS:
        message = f"Training in {precision} is not reckoned: choose one of {', '.join(sorted(FLOATS))}."
        raise Invalid.of_field("precision", message, code="not_for_training")
    shape, shape_is = _shape(values, family=words.get("family", ""))
    parameters = _parameters(values, shape, request)
    return Demand(
        parameters=parameters,
        shape=shape,
        shape_is=shape_is,
        purpose=purpose,
        precision=precision,
        sequence_length=values.get("sequence_length", SEQUENCE_LENGTH),
        batch_size=values.get("batch_size", BATCH_SIZE),
        fused_attention=values.get("fused_attention", True),
        **(_training(values, precision) if purpose is Purpose.TRAINING else _inference(values)),
    )


def _purpose(values: Mapping[str, Any]) -> Purpose:
    """The purpose that is set, else training where a value is set that only training has."""
    if "purpose" in values:
        return Purpose(values["purpose"])
    trains = (
        values.get("optimizer", Optimizer.NONE) != Optimizer.NONE
        or values.get("sharding", Sharding.NONE) != Sharding.NONE
        or values.get("gradient_checkpointing")
    )
    return Purpose.TRAINING if trains else Purpose.INFERENCE


def _training(values: Mapping[str, Any], precision: Precision) -> dict[str, Any]:
    optimizer = Optimizer(values.get("optimizer", Optimizer.ADAMW))
    if optimizer is Optimizer.NONE:
        raise Invalid.of_field(
            "optimizer", "Training needs an optimizer; sgd keeps no state.", code="required"
        )
    half = precision in HALVES
    if values.get("master_weights") and not half:
        message = f"Weights in {precision} need no copy in fp32: leave this out."
        raise Invalid.of_field("master_weights", message, code="not_for_precision")
    return {
        "optimizer": optimizer,
        "sharding": Sharding(values.get("sharding", Sharding.NONE)),
        "gradient_checkpointing": values.get("gradient_checkpointing", False),
        "master_weights": half and values.get("master_weights", True),
    }


def _inference(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing; Invalid where something is asked for that only training has."""
    nothing = {"optimizer": Optimizer.NONE, "sharding": Sharding.NONE}
    for name in ("optimizer", "sharding", "gradient_checkpointing", "master_weights"):
        value = values.get(name)
        if value and value != nothing.get(name):
            message = "Only training has this: leave it out, or set the purpose to training."
            raise Invalid.of_field(name, message, code="not_for_inference")
    return {}


def _parameters(values: Mapping[str, Any], shape: Architecture, request: Mapping[str, Any]) -> int:
    if "family" in values and request.get("parameters") is None:
        return shape.parameters or int(values["parameters"])
    count = int(values.get("parameters") or parameters_of(shape))
    if not PARAMETERS_MIN <= count <= PARAMETERS_MAX:
        message = f"These sizes make {count} parameters, which is not between 1K and 10T."
        raise Invalid.of_field("hidden_size", message, code="out_of_range")
    return count


def _shape(values: Mapping[str, Any], *, family: str) -> tuple[Architecture, str]:
    base, source = _base(values, family)
    own = {
        field: values[name]
        for name, field in (
            ("attention_heads", "heads"),
            ("kv_heads", "kv_heads"),
            ("vocabulary_size", "vocabulary"),
        )
        if name in values
    }
    if "heads" in own and "kv_heads" not in own:
        own["kv_heads"] = own["heads"]
    shape = replace(base, **own)
    if shape.hidden % shape.heads:
        message = f"{shape.heads} heads do not divide a hidden size of {shape.hidden}."
        raise Invalid.of_field("attention_heads", message, code="does_not_divide")
    if shape.heads % shape.kv_heads:
        message = f"{shape.kv_heads} heads of keys and values do not divide {shape.heads} heads."
        raise Invalid.of_field("kv_heads", message, code="does_not_divide")
    return shape, source


def _base(values: Mapping[str, Any], family: str) -> tuple[Architecture, str]:
    sizes = [values.get(name) for name in ("layers", "hidden_size")]
    if all(sizes):
        layers, hidden = (int(size or 0) for size in sizes)
        return of_shape(layers=layers, hidden=hidden), "Layers and hidden size are those given."
    if any(sizes):
        missing = "hidden_size" if sizes[0] else "layers"
        raise Invalid.of_field(missing, "Give layers and hidden_size together, or neither.", code="required")
    if not values.get("parameters"):
        message = (
            "Say how large the model is: as parameters, as text such as 7B, or as layers and hidden_size."
        )
        raise Invalid.of_field("parameters", message, code="required")
    if not family:
        nearest = by_size(values["parameters"])
        return nearest, f"Layers and hidden size are taken from {nearest.name}, the nearest published size."
    member = of_family(family, values["parameters"])
    if member is None:
        sizes_known = ", ".join(architecture.name for architecture in members(family))
        message = f"No {family} of that size is known ({sizes_known}): give layers and hidden_size."
        raise Invalid.of_field("text", message, code="not_understood")
    return member, f"The shape is that of {member.name}."
