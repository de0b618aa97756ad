"""REST shapes of idle holds, alerts and their rules."""

from __future__ import annotations

import math
from typing import Any

from rest_framework import serializers
from typing_extensions import override

from foundation.http.serializers import MoneySerializer, StrictSerializer
from telemetry.gpu_metrics import MEBIBYTE
from telemetry.models import Alert
from telemetry.queries import IdleList, PricedHold
from telemetry.rules import (
    MEASURES,
    METRICS,
    NAMES,
    THRESHOLD_MAX,
    WINDOW_MINUTES_MAX,
    WINDOW_MINUTES_MIN,
)
from telemetry.size_advice import RightSize
from workloads.models import Workload
from workloads.podspec.fields import FlagField, TextField, WholeNumberField


class AboutWorkloadSerializer(serializers.Serializer[Any]):
    """The run or endpoint that it is about."""

    id = serializers.UUIDField(source="public_id")
    kind = serializers.CharField()
    name = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    owner = serializers.CharField(source="owner.username")
    url = serializers.SerializerMethodField(help_text="The path of its page.")

    def get_url(self, workload: Workload) -> str:
        return workload.page_url


class IdleHoldSerializer(serializers.Serializer[Any]):
    workload = AboutWorkloadSerializer(source="hold.workload")
    pod = serializers.CharField(source="hold.pod.name")
    node = serializers.CharField(source="hold.node")
    gpu = serializers.CharField(source="hold.gpu", help_text="Its number on the node.")
    slice = serializers.CharField(
        source="hold.slice", help_text="Profile and number of a MIG slice; empty for a whole card."
    )
    flavor = serializers.CharField(source="hold.workload.flavor.name")
    utilization = serializers.FloatField(
        source="hold.utilization", help_text="Percent, the highest of the rule's window."
    )
    memory_used = serializers.SerializerMethodField(help_text="Bytes; null where it is not measured.")
    memory_total = serializers.SerializerMethodField(help_text="Bytes; null where it is not measured.")
    since = serializers.DateTimeField(source="hold.since", help_text="Since when at least.")
    idle_seconds = serializers.IntegerField()
    rate_per_hour = MoneySerializer(allow_null=True, help_text="Null without a price.")

    def get_memory_used(self, each: PricedHold) -> int | None:
        return in_bytes(each.hold.memory_used_mib)

    def get_memory_total(self, each: PricedHold) -> int | None:
        return in_bytes(each.hold.memory_total_mib)


class IdleListSerializer(serializers.Serializer[IdleList]):
    looked_at = serializers.DateTimeField(allow_null=True)
    answered_at = serializers.DateTimeField(
        allow_null=True, help_text="When Prometheus last answered: the list is of then."
    )
    unknown_because = serializers.CharField(help_text="Why the last look found nothing out; empty if it did.")
    complete = serializers.BooleanField(help_text="Whether all are there: 500 at most.")
    rate_per_hour = MoneySerializer(help_text="Of all that have a price.")
    results = IdleHoldSerializer(source="holds", many=True, help_text="The longest idle first.")


class AlertSerializer(serializers.ModelSerializer[Alert]):
    rule = serializers.CharField(help_text=f"One of {', '.join(NAMES)}.")
    workload = AboutWorkloadSerializer()

    class Meta:
        model = Alert
        fields = [
            *("rule", "workload", "cards", "value", "threshold", "message"),
            *("opened_at", "seen_at", "closed_at"),
        ]
        read_only_fields = fields


class AlertRuleSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text=f"One of {', '.join(NAMES)}.")
    title = serializers.CharField()
    metric = serializers.ChoiceField(choices=METRICS, help_text="Percent, percent, or degrees Celsius.")
    measure = serializers.ChoiceField(choices=MEASURES, help_text="Which value of the window counts.")
    threshold = serializers.FloatField(help_text="Utilization is to stay above it, the others below.")
    window_minutes = serializers.IntegerField()
    kinds = serializers.ListField(child=serializers.CharField(), help_text="All kinds if empty.")
    teams = serializers.ListField(child=serializers.CharField(), help_text="All teams if empty.")
    enabled = serializers.BooleanField()
    words = serializers.CharField(help_text="What it says.")


class ThresholdField(serializers.FloatField):
    @override
    def to_internal_value(self, data: Any) -> float:
        value = super().to_internal_value(data)
        if isinstance(data, (bool, str)) or not math.isfinite(value):
            raise serializers.ValidationError("Give a number.", code="invalid")
        return float(value)


class AlertRuleChangeSerializer(StrictSerializer):
    threshold = ThresholdField(required=False, min_value=0, max_value=THRESHOLD_MAX)
    window_minutes = WholeNumberField(
        required=False, min_value=WINDOW_MINUTES_MIN, max_value=WINDOW_MINUTES_MAX
    )
    kinds = serializers.ListField(
        child=TextField(max_length=32), required=False, max_length=16, help_text="All kinds if empty."
    )
    teams = serializers.ListField(
        child=TextField(max_length=63), required=False, max_length=200, help_text="All teams if empty."
    )
    enabled = FlagField(required=False)


def in_bytes(mebibytes: float | None) -> int | None:
    return None if mebibytes is None else round(mebibytes * MEBIBYTE)


class RightSizeSerializer(serializers.Serializer[RightSize]):
    """What a run that has ended should ask for the next time."""

    unknown_because = serializers.CharField(help_text="Why nothing can be said; empty where something is.")
    message = serializers.CharField(source="advice.message", default="")
    confidence = serializers.ChoiceField(
        source="advice.confidence", choices=["high", "medium", "low"], default=None, allow_null=True
    )
    changes = serializers.DictField(
        source="advice.changes",
        default=dict,
        help_text="Fields of its request with other values, as `clone/` takes them; empty if it used what it asked for.",
    )
    saving = MoneySerializer(
        source="advice.saving_micro_usd",
        default=None,
        allow_null=True,
        help_text="What a run as long as this one would cost less at today's prices.",
    )
    average_utilization = serializers.FloatField(
        source="summary.average_utilization", default=None, allow_null=True, help_text="Percent."
    )
    peak_memory = serializers.SerializerMethodField(
        help_text="Bytes, of one card; null where it is not known."
    )
    coverage = serializers.FloatField(
        source="summary.coverage",
        default=None,
        allow_null=True,
        help_text="Share of its time that is measured.",
    )

    def get_peak_memory(self, found: RightSize) -> int | None:
        return in_bytes(found.summary.peak_memory_mib) if found.summary else None
