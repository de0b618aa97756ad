"""The words of `advice/`: what may be asked, and how it is answered."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from typing_extensions import override

from advisor.advice import Advice
from advisor.demand import Demand
from advisor.fitting import CARDS_MAX, Fit, Isolation, Place
from advisor.memory_sum import GIB, MemorySum, Term
from advisor.model_text import (
    BATCH_MAX,
    GRAMMAR,
    PARAMETERS_MAX,
    PARAMETERS_MIN,
    SEQUENCE_MAX,
    TEXT_LENGTH_MAX,
    Optimizer,
    Precision,
    Purpose,
    Sharding,
)
from foundation.http.serializers import MoneySerializer, StrictSerializer
from workloads.podspec.fields import TextField, WholeNumberField

LAYERS_MAX = 10_000
HIDDEN_MAX = 1_000_000
VOCABULARY_MAX = 10_000_000


def _count(most: int, help_text: str = "", *, least: int = 1) -> WholeNumberField:
    return WholeNumberField(
        min_value=least, max_value=most, required=False, allow_null=True, help_text=help_text
    )


def _choice(kinds: Any, help_text: str = "") -> serializers.ChoiceField:
    return serializers.ChoiceField(
        choices=[kind.value for kind in kinds], required=False, allow_null=True, help_text=help_text
    )


def _flag(help_text: str) -> serializers.BooleanField:
    return serializers.BooleanField(required=False, allow_null=True, help_text=help_text)


class AdviceRequestSerializer(StrictSerializer):
    """A field that is given outweighs the same word of `text`."""

    team = TextField(max_length=63, help_text="Whose flavors and prices.")
    text = TextField(max_length=TEXT_LENGTH_MAX, required=False, allow_null=True, help_text=GRAMMAR)
    parameters = _count(PARAMETERS_MAX, least=PARAMETERS_MIN)
    purpose = _choice(Purpose, "Inference, unless something is given that only training has.")
    precision = _choice(Precision, "Default bf16. Training in 16 bits is mixed precision.")
    optimizer = _choice(Optimizer, "Default adamw where it trains.")
    sequence_length = _count(SEQUENCE_MAX, "Tokens; default 2048.")
    batch_size = _count(
        BATCH_MAX,
        "Sequences at a time: of training on each card, of inference those answered at once; default 1.",
    )
    layers = _count(LAYERS_MAX, "With hidden_size; else taken from a published model.")
    hidden_size = _count(HIDDEN_MAX)
    attention_heads = _count(HIDDEN_MAX)
    kv_heads = _count(HIDDEN_MAX, "Heads of keys and values, where there are fewer.")
    vocabulary_size = _count(VOCABULARY_MAX)
    isolation = _choice(Isolation, "What neighbours on a card must not touch; default none.")
    sharding = _choice(
        Sharding, "What data-parallel cards divide: ZeRO 1 (optimizer), 2 (gradients), 3 or FSDP (full)."
    )
    cards = _count(
        CARDS_MAX,
        "Exactly so many: data-parallel in training, tensor-parallel in inference. Else the fewest.",
    )
    gradient_checkpointing = _flag("Keep the inputs of layers alone and compute the rest again.")
    fused_attention = _flag("Attention without stored scores, as FlashAttention does; default true.")
    master_weights = _flag("Whether training in 16 bits keeps weights in fp32 too; default true.")


class GibField(serializers.FloatField):
    """Bytes, answered in GiB to three decimals."""

    @override
    def to_representation(self, value: Any) -> Any:
        return round(value / GIB, 3)


class TermSerializer(serializers.Serializer[Term]):
    name = serializers.CharField()
    title = serializers.CharField()
    bytes = serializers.IntegerField()
    gib = GibField(source="bytes")
    formula = serializers.CharField()
    figures = serializers.CharField(help_text="The formula with its numbers.")
    reference = serializers.CharField(help_text="Where the formula comes from.")
    reference_url = serializers.URLField()


class MemorySerializer(serializers.Serializer[MemorySum]):
    cards = serializers.IntegerField(help_text="The sum is for each of so many.")
    terms = TermSerializer(many=True)
    total_bytes = serializers.IntegerField()
    total_gib = GibField(source="total_bytes")


class ShapeSerializer(serializers.Serializer[Demand]):
    name = serializers.CharField(source="shape.name")
    layers = serializers.IntegerField(source="shape.layers")
    hidden_size = serializers.IntegerField(source="shape.hidden")
    attention_heads = serializers.IntegerField(source="shape.heads")
    kv_heads = serializers.IntegerField(source="shape.kv_heads")
    feed_forward_size = serializers.IntegerField(source="shape.feed_forward")
    vocabulary_size = serializers.IntegerField(source="shape.vocabulary")
    said = serializers.CharField(help_text="Where these figures come from.", source="shape_is")


class DemandSerializer(serializers.Serializer[Demand]):
    parameters = serializers.IntegerField()
    purpose = serializers.ChoiceField(choices=[purpose.value for purpose in Purpose])
    precision = serializers.ChoiceField(choices=[precision.value for precision in Precision])
    optimizer = serializers.ChoiceField(choices=[optimizer.value for optimizer in Optimizer])
    sequence_length = serializers.IntegerField()
    batch_size = serializers.IntegerField()
    sharding = serializers.ChoiceField(choices=[sharding.value for sharding in Sharding])
    gradient_checkpointing = serializers.BooleanField()
    fused_attention = serializers.BooleanField()
    master_weights = serializers.BooleanField()


class OfferSerializer(serializers.Serializer[Place]):
    capacity = serializers.CharField(source="capacity_type")
    gpus_per_replica = serializers.IntegerField(help_text="0 where it cannot be had.", source="units_each")
    replicas = serializers.IntegerField()
    units = serializers.IntegerField()
    nodes = serializers.IntegerField(help_text="The fewest nodes that the pods need.")
    rate_per_hour = MoneySerializer(allow_null=True)
    quota = serializers.IntegerField(
        help_text="The most units that the team may use, with what it may borrow."
    )
    within_quota = serializers.BooleanField()
    refused = serializers.CharField(help_text="Why it cannot be had; empty where it can.")
    cpu = serializers.CharField(
        allow_null=True, help_text="What each pod gets where that is left out; null where no node tells."
    )
    memory = serializers.CharField(allow_null=True, help_text="The same of memory.")
    lacks = serializers.CharField(
        help_text="What nodes have too little of for such pods beside those of others; empty where they have enough."
    )


class FitSerializer(serializers.Serializer[Fit]):
    flavor = serializers.CharField(source="offered.facts.name")
    sharing = serializers.CharField(source="offered.facts.sharing")
    memory_gib = serializers.IntegerField(help_text="Of one unit.", source="offered.memory_gib")
    usable_bytes = serializers.IntegerField(
        help_text="Of that, what is counted on.", source="offered.usable_bytes"
    )
    holds = serializers.BooleanField()
    count = serializers.IntegerField(help_text="The fewest units that hold it; 0 where none do.")
    needed_bytes = serializers.IntegerField(
        help_text="On each of `count` units, or on one where none do.", source="unit_bytes"
    )
    needed_gib = GibField(source="unit_bytes")
    refused = serializers.CharField(help_text="Why it does not hold it; empty where it does.")
    offers = OfferSerializer(many=True, source="places")


class AdviceSerializer(serializers.Serializer[Advice]):
    message = serializers.CharField()
    model = ShapeSerializer(source="demand")
    request = DemandSerializer(help_text="What was reckoned with, defaults filled in.", source="demand")
    memory = MemorySerializer()
    flavors = FitSerializer(
        many=True, help_text="Those that hold it first, the smallest of them at the top.", source="fits"
    )
