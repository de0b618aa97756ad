"""The words of `advice/`: what may be asked, and how it is answered."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from advisor.advice import Advice
from advisor.architectures import Architecture
from advisor.demand import Demand
from advisor.fitting import CARDS_MAX, Fit, Isolation, Place
from advisor.memory_sum import GIB, SOURCES, MemorySum
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
from foundation.money import as_json
from workloads.podrequests import CPU, MEMORY, quantity_of
from workloads.podspec.fields import TextField, WholeNumberField

LAYERS_MAX = 10_000
HIDDEN_MAX = 1_000_000
VOCABULARY_MAX = 10_000_000
DEMAND_FIELDS = (
    "parameters",
    "purpose",
    "precision",
    "optimizer",
    "sequence_length",
    "batch_size",
    "sharding",
    "gradient_checkpointing",
    "fused_attention",
    "master_weights",
)


def _count(most: int, help_text: str = "", *, least: int = 1) -> WholeNumberField:
    return WholeNumberField(
        min_value=least, max_value=most, required=False, allow_null=True, help_text=help_text
    )


def _choice(kinds: Any, help_text: str = "") -> serializers.ChoiceField:
    return serializers.ChoiceField(
        choices=[each.value for each in kinds], required=False, allow_null=True, help_text=help_text
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


class TermSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    bytes = serializers.IntegerField()
    gib = serializers.FloatField()
    formula = serializers.CharField()
    figures = serializers.CharField(help_text="The formula with its numbers.")
    reference = serializers.CharField(help_text="Where the formula comes from.")
    reference_url = serializers.URLField()


class MemorySerializer(serializers.Serializer[Any]):
    cards = serializers.IntegerField(help_text="The sum is for each of so many.")
    terms = TermSerializer(many=True)
    total_bytes = serializers.IntegerField()
    total_gib = serializers.FloatField()


class ShapeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    layers = serializers.IntegerField()
    hidden_size = serializers.IntegerField()
    attention_heads = serializers.IntegerField()
    kv_heads = serializers.IntegerField()
    feed_forward_size = serializers.IntegerField()
    vocabulary_size = serializers.IntegerField()
    said = serializers.CharField(help_text="Where these figures come from.")


class DemandSerializer(serializers.Serializer[Any]):
    parameters = serializers.IntegerField()
    purpose = serializers.ChoiceField(choices=[each.value for each in Purpose])
    precision = serializers.ChoiceField(choices=[each.value for each in Precision])
    optimizer = serializers.ChoiceField(choices=[each.value for each in Optimizer])
    sequence_length = serializers.IntegerField()
    batch_size = serializers.IntegerField()
    sharding = serializers.ChoiceField(choices=[each.value for each in Sharding])
    gradient_checkpointing = serializers.BooleanField()
    fused_attention = serializers.BooleanField()
    master_weights = serializers.BooleanField()


class OfferSerializer(serializers.Serializer[Any]):
    capacity = serializers.CharField()
    gpus_per_replica = serializers.IntegerField(help_text="0 where it cannot be had.")
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


class FitSerializer(serializers.Serializer[Any]):
    flavor = serializers.CharField()
    sharing = serializers.CharField()
    memory_gib = serializers.IntegerField(help_text="Of one unit.")
    usable_bytes = serializers.IntegerField(help_text="Of that, what is counted on.")
    holds = serializers.BooleanField()
    count = serializers.IntegerField(help_text="The fewest units that hold it; 0 where none do.")
    needed_bytes = serializers.IntegerField(help_text="On each of `count` units, or on one where none do.")
    needed_gib = serializers.FloatField()
    refused = serializers.CharField(help_text="Why it does not hold it; empty where it does.")
    offers = OfferSerializer(many=True)


class AdviceSerializer(serializers.Serializer[Any]):
    message = serializers.CharField()
    model = ShapeSerializer()
    request = DemandSerializer(help_text="What was reckoned with, defaults filled in.")
    memory = MemorySerializer()
    flavors = FitSerializer(many=True, help_text="Those that hold it first, the smallest of them at the top.")


def advice_json(advice: Advice) -> dict[str, Any]:
    """The answer's body."""
    return {
        "message": advice.said,
        "model": _shape(advice.demand.shape, advice.demand.shape_is),
        "request": _demand(advice.demand),
        "memory": memory_json(advice.memory),
        "flavors": [_fit(fit) for fit in advice.fits],
    }


def memory_json(memory: MemorySum) -> dict[str, Any]:
    terms = [
        {
            "name": term.name,
            "title": term.title,
            "bytes": term.bytes,
            "gib": _gib(term.bytes),
            "formula": term.formula,
            "figures": term.figures,
            "reference": SOURCES[term.source][0],
            "reference_url": SOURCES[term.source][1],
        }
        for term in memory.terms
    ]
    total = memory.total_bytes
    return {"cards": memory.cards, "terms": terms, "total_bytes": total, "total_gib": _gib(total)}


def _shape(shape: Architecture, said: str) -> dict[str, Any]:
    return {
        "name": shape.name,
        "layers": shape.layers,
        "hidden_size": shape.hidden,
        "attention_heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "feed_forward_size": shape.feed_forward,
        "vocabulary_size": shape.vocabulary,
        "said": said,
    }


def _demand(demand: Demand) -> dict[str, Any]:
    return {name: getattr(demand, name) for name in DEMAND_FIELDS}


def _fit(fit: Fit) -> dict[str, Any]:
    return {
        "flavor": fit.offered.facts.name,
        "sharing": fit.offered.facts.sharing.value,
        "memory_gib": fit.offered.memory_gib,
        "usable_bytes": fit.offered.usable_bytes,
        "holds": fit.holds,
        "count": fit.count,
        "needed_bytes": fit.unit_bytes,
        "needed_gib": _gib(fit.unit_bytes),
        "refused": fit.refused,
        "offers": [_offer(place) for place in fit.places],
    }


def _offer(place: Place) -> dict[str, Any]:
    return {
        "capacity": place.capacity_type,
        "gpus_per_replica": place.units_each,
        "replicas": place.replicas,
        "units": place.units,
        "nodes": place.nodes,
        "rate_per_hour": as_json(place.rate_per_hour),
        "quota": place.quota,
        "within_quota": place.within_quota,
        "refused": place.refused,
        "cpu": quantity_of(CPU, place.share[0]) if place.share else None,
        "memory": quantity_of(MEMORY, place.share[1]) if place.share else None,
        "lacks": place.lacks,
    }


def _gib(size: int) -> float:
    return round(size / GIB, 3)
