"""Bodies and answers of prices."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty
from typing_extensions import override

from costs.models import Price
from costs.prices.imports import CSV_BYTES_MAX, Choice, Instance, TableProblem, memory_of
from costs.prices.preview import ImportPreview, PriceChange, TeamRate
from costs.prices.services import MICRO_USD_MAX
from foundation.http.serializers import MoneySerializer, StrictSerializer
from foundation.money import MICRO, NotAnAmount, micro_of_usd
from workloads.models import CapacityType

CARDS_MAX = 100


class UsdField(serializers.CharField):
    """An amount in USD as text, such as "2.744705"; read as micro-USD."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=40, help_text='In USD as text, such as "2.744705".', **kwargs)

    @override
    def run_validation(self, data: Any = empty) -> Any:
        # What is said of the text, such as its length, is checked before it is a number.
        text = super().run_validation(data)
        try:
            micro = micro_of_usd(text)
        except NotAnAmount as error:
            raise serializers.ValidationError(str(error), code=error.code) from None
        if micro > MICRO_USD_MAX:
            message = f"Ensure this value is less than or equal to {MICRO_USD_MAX // MICRO}."
            raise serializers.ValidationError(message, code="max_value")
        return micro


class PriceSerializer(serializers.ModelSerializer[Price]):
    id = serializers.UUIDField(source="public_id")
    card = serializers.CharField(source="priced.card")
    capacity = serializers.CharField(source="priced.capacity_type")

    class Meta:
        model = Price
        fields = [
            "id",
            "card",
            "capacity",
            "micro_usd_per_card_hour",
            "valid_from",
            "valid_until",
            "actor",
            "reason",
            "created_at",
        ]


class PricePreviewWriteSerializer(StrictSerializer):
    """A price to look at; `micro_usd_per_card_hour` has it however it was given."""

    card = serializers.CharField(max_length=63)
    capacity = serializers.ChoiceField(choices=CapacityType.choices, default=CapacityType.ON_DEMAND)
    micro_usd_per_card_hour = serializers.IntegerField(min_value=0, max_value=MICRO_USD_MAX, required=False)
    usd_per_card_hour = UsdField(required=False)
    currency = serializers.ChoiceField(choices=["USD"], default="USD", help_text="There is no other.")
    valid_from = serializers.DateTimeField(required=False, help_text="Now, unless given.")

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The amount is given once, in one of two units."""
        usd = attrs.pop("usd_per_card_hour", None)
        if usd is not None and "micro_usd_per_card_hour" in attrs:
            message = "Give micro_usd_per_card_hour or usd_per_card_hour, not both."
            raise serializers.ValidationError({"usd_per_card_hour": message}, code="exclusive")
        if usd is None and "micro_usd_per_card_hour" not in attrs:
            message = "This field is required, or usd_per_card_hour."
            raise serializers.ValidationError({"micro_usd_per_card_hour": message}, code="required")
        return attrs if usd is None else {**attrs, "micro_usd_per_card_hour": usd}


class PriceWriteSerializer(PricePreviewWriteSerializer):
    reason = serializers.CharField(max_length=1000)


class TeamRateSerializer(serializers.Serializer[TeamRate]):
    team = serializers.CharField()
    cards = serializers.CharField(help_text="Cards that its pods hold, exactly, such as `3/7`.")
    rate_per_hour_before = MoneySerializer(allow_null=True, source="before")
    rate_per_hour_after = MoneySerializer(source="after")
    difference = MoneySerializer(allow_null=True)


class FieldProblemSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()


class PriceChangeSerializer(serializers.Serializer[PriceChange]):
    card = serializers.CharField()
    capacity = serializers.CharField(source="capacity_type")
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(
        allow_null=True, help_text="When a later price that is known takes over."
    )
    before = MoneySerializer(
        allow_null=True, help_text="A card-hour at that moment by the prices there are; null without one."
    )
    after = MoneySerializer()
    difference = MoneySerializer(allow_null=True)
    difference_percent = serializers.CharField(allow_null=True, source="percent")
    outcome = serializers.ChoiceField(choices=["new", "changed", "same", "refused"])
    teams = TeamRateSerializer(many=True, help_text="What the pods that run now cost an hour, by team.")
    billed_until = serializers.DateTimeField(
        allow_null=True,
        help_text="Until when what still runs is in the ledger; what is there stays as it is, whatever the price.",
    )
    refused = FieldProblemSerializer(many=True, help_text="Why it cannot be set; empty if it can.")


class ImportChoiceSerializer(StrictSerializer):
    """Which machine gives a card its price: all that is said must be so."""

    card = serializers.CharField(max_length=63)
    provider = serializers.CharField(max_length=80, default="", allow_blank=True)
    instance_type = serializers.CharField(max_length=80, default="", allow_blank=True)
    gpu_model = serializers.CharField(max_length=80, default="", allow_blank=True)
    gpu_memory_gib = serializers.CharField(
        max_length=20, required=False, help_text="Such as `80` or `22.35`."
    )

    def validate_gpu_memory_gib(self, value: str) -> Fraction:
        """GiB as a number."""
        size = memory_of(value)
        if size is None:
            raise serializers.ValidationError("A size in GiB is needed here, such as 80.", code="invalid")
        return size


class ImportPreviewWriteSerializer(StrictSerializer):
    csv = serializers.CharField(max_length=CSV_BYTES_MAX, trim_whitespace=False, help_text="The table.")
    cards = serializers.ListField(
        child=ImportChoiceSerializer(), max_length=CARDS_MAX, help_text="The machine of each card."
    )
    valid_from = serializers.DateTimeField(required=False, help_text="Now, unless given.")

    def validate_cards(self, value: list[dict[str, Any]]) -> list[Choice]:
        """The choices as the import takes them."""
        return [Choice(**each) for each in value]


class ImportWriteSerializer(ImportPreviewWriteSerializer):
    reason = serializers.CharField(max_length=1000)


class TableProblemSerializer(serializers.Serializer[TableProblem]):
    line = serializers.IntegerField(help_text="From 1 on, with the header.")
    column = serializers.CharField(help_text="Empty where it is the whole line.")
    code = serializers.CharField()
    message = serializers.CharField()


class InstanceSerializer(serializers.Serializer[Instance]):
    line = serializers.IntegerField()
    provider = serializers.CharField()
    instance_type = serializers.CharField()
    gpu_model = serializers.CharField()
    gpu_count = serializers.IntegerField()


class ImportedPriceSerializer(serializers.Serializer[Any]):
    instance = InstanceSerializer(source="proposed.instance")
    left_over = MoneySerializer(
        source="proposed.left_over",
        help_text="What the machine costs an hour more than its cards by this price: what rounding made of it.",
    )
    change = PriceChangeSerializer()


class ImportPreviewSerializer(serializers.Serializer[ImportPreview]):
    acceptable = serializers.BooleanField(help_text="Whether importing it now would be accepted.")
    prices = ImportedPriceSerializer(many=True)
    refused = FieldProblemSerializer(many=True, help_text="Choices that give no price.")
    instances = InstanceSerializer(many=True, source="table.instances", help_text="What could be read.")
    problems = TableProblemSerializer(many=True, source="table.problems", help_text="Lines that could not.")


class ImportedPricesSerializer(serializers.Serializer[Any]):
    prices = PriceSerializer(
        many=True, help_text="Those that are new: a card that costs that already keeps its price."
    )
