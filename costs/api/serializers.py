"""Bodies and answers of the ledger and its sums."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from typing_extensions import override

from costs.models import LedgerEntry
from costs.reports.comparisons import LaneUse, SpotSavings
from costs.reports.groups import CostGroup, CostReport
from foundation.http.serializers import StrictSerializer
from foundation.money import AmountJSON, as_json


class _WindowSerializer(serializers.Serializer[Any]):
    @override
    def get_fields(self) -> dict[str, Any]:
        return {
            **super().get_fields(),
            "from": serializers.DateTimeField(source="window.start", allow_null=True),
            "to": serializers.DateTimeField(source="window.end", allow_null=True),
        }


class SpentWorkloadSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="public_id")
    kind = serializers.CharField()
    name = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    owner = serializers.CharField(source="owner.username", allow_null=True)
    phase = serializers.CharField()


class CostGroupSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(
        help_text="Team slug, username, project, flavor, capacity, phase, id of the workload, day or month."
    )
    name = serializers.CharField()
    amount = serializers.SerializerMethodField()
    running = serializers.SerializerMethodField()
    workload = serializers.SerializerMethodField()

    def get_amount(self, group: CostGroup) -> AmountJSON | None:
        """What was spent, to this second."""
        return as_json(group.amount_micro_usd)

    def get_running(self, group: CostGroup) -> AmountJSON | None:
        """Of it what is not in the ledger yet."""
        return as_json(group.running_micro_usd)

    @extend_schema_field(SpentWorkloadSerializer(allow_null=True))
    def get_workload(self, group: CostGroup) -> dict[str, Any] | None:
        """Of a group that is a run or an endpoint."""
        return None if group.workload is None else SpentWorkloadSerializer(group.workload).data


class CostSummarySerializer(_WindowSerializer):
    results = CostGroupSerializer(many=True, source="groups")
    total = serializers.SerializerMethodField()
    running = serializers.SerializerMethodField()
    complete = serializers.BooleanField(
        help_text="Whether no group is left out of `results`; the total is of all."
    )
    unpriced = serializers.BooleanField(
        help_text="Whether something runs that has no price: it is not in the sums."
    )

    def get_total(self, report: CostReport) -> AmountJSON | None:
        """Of all groups."""
        return as_json(report.total_micro_usd)

    def get_running(self, report: CostReport) -> AmountJSON | None:
        """Of it what is not in the ledger yet."""
        return as_json(report.running_micro_usd)


class LaneUseSerializer(serializers.Serializer[Any]):
    card = serializers.CharField()
    capacity = serializers.CharField()
    charged = serializers.SerializerMethodField()
    idle = serializers.SerializerMethodField()
    stranded = serializers.SerializerMethodField()
    lost = serializers.SerializerMethodField()
    idle_share = serializers.FloatField(
        allow_null=True, help_text="Idle money as a part of all four; null where there was nothing."
    )

    def get_charged(self, lane: LaneUse) -> AmountJSON | None:
        """To teams."""
        return as_json(lane.charged)

    def get_idle(self, lane: LaneUse) -> AmountJSON | None:
        """What nobody held although a flavor offers it."""
        return as_json(lane.idle)

    def get_stranded(self, lane: LaneUse) -> AmountJSON | None:
        """What no flavor can use."""
        return as_json(lane.stranded)

    def get_lost(self, lane: LaneUse) -> AmountJSON | None:
        """Work that the platform destroyed."""
        return as_json(lane.lost)


class SpotSavingsSerializer(serializers.Serializer[Any]):
    spent = serializers.SerializerMethodField()
    on_demand = serializers.SerializerMethodField()
    saved = serializers.SerializerMethodField()
    complete = serializers.BooleanField(
        help_text="False where a card had no on-demand price at the time: that part is not compared."
    )

    def get_spent(self, savings: SpotSavings) -> AmountJSON | None:
        """For spot capacity."""
        return as_json(savings.spent)

    def get_on_demand(self, savings: SpotSavings) -> AmountJSON | None:
        """What the same would have cost on demand, at the prices of the time."""
        return as_json(savings.on_demand)

    def get_saved(self, savings: SpotSavings) -> AmountJSON | None:
        """The difference."""
        return as_json(savings.saved)


class IdleSerializer(_WindowSerializer):
    results = LaneUseSerializer(many=True, source="lanes")
    spot = SpotSavingsSerializer(source="savings")


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
