"""Bodies and answers of prices and the ledger."""

from __future__ import annotations

from rest_framework import serializers

from costs.models import LedgerEntry, Price
from foundation.http.serializers import StrictSerializer
from foundation.money import AmountJSON, as_json
from workloads.models import CapacityType

MICRO_USD_MAX = 1_000_000_000_000


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


class PriceWriteSerializer(StrictSerializer):
    card = serializers.CharField(max_length=63)
    capacity = serializers.ChoiceField(choices=CapacityType.choices, default=CapacityType.ON_DEMAND)
    micro_usd_per_card_hour = serializers.IntegerField(min_value=0, max_value=MICRO_USD_MAX)
    valid_from = serializers.DateTimeField(required=False, help_text="Now, unless given.")
    reason = serializers.CharField(max_length=1000)


class LedgerSerializer(serializers.ModelSerializer[LedgerEntry]):
    team = serializers.CharField(source="team.slug", allow_null=True)
    workload = serializers.UUIDField(source="workload.public_id", allow_null=True)
    price = serializers.UUIDField(source="price.public_id", allow_null=True, help_text="The price's version.")
    amount = serializers.SerializerMethodField()

    class Meta:
        model = LedgerEntry
        fields = [
            "transaction_id",
            "account",
            "team",
            "workload",
            "pod_uid",
            "node_name",
            "flavor_name",
            "started_at",
            "ended_at",
            "price",
            "units",
            "amount",
            "reason",
            "posted_at",
        ]

    def get_amount(self, entry: LedgerEntry) -> AmountJSON | None:
        """Positive: the account pays."""
        return as_json(entry.amount_micro_usd)
