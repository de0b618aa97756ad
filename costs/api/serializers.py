"""Bodies and answers of prices and the ledger."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from costs.models import LedgerEntry, Price
from costs.reports.queries import CostGroup
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


class CostGroupSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Team slug, flavor, workload id or day.")
    name = serializers.CharField()
    amount = serializers.SerializerMethodField()

    def get_amount(self, group: CostGroup) -> AmountJSON | None:
        """What was charged."""
        return as_json(group.amount_micro_usd)


class CostSummarySerializer(serializers.Serializer[Any]):
    results = CostGroupSerializer(many=True)


class AdjustmentSerializer(StrictSerializer):
    transaction_id = serializers.UUIDField()
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
