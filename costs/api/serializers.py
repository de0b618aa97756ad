"""Bodies and answers of the ledger and its sums."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from costs.models import LedgerEntry
from costs.reports.queries import CostGroup
from foundation.http.serializers import StrictSerializer
from foundation.money import AmountJSON, as_json


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
