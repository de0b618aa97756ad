"""How REST tells how an endpoint is scaled."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.http.serializers import MoneySerializer


class ScaleSampleSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    desired = serializers.IntegerField(help_text="Replicas that the Deployment was told.")
    ready = serializers.IntegerField()
    metric = serializers.FloatField(allow_null=True, help_text="The scaler's newest value.")
    target = serializers.FloatField(allow_null=True)
    reason = serializers.CharField(help_text="Why the scaler holds this number, in its own word.")


class WakeSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(help_text="When a call found no replica.")
    seconds = serializers.IntegerField(help_text="Until one was ready.")


# Of the fields of Scaling, with what it slept under `slept`.
class ScalingStateSerializer(serializers.Serializer[Any]):
    engine = serializers.ChoiceField(choices=["keda", "hpa"], allow_null=True)
    trigger = serializers.CharField(allow_null=True)
    minimum = serializers.IntegerField()
    maximum = serializers.IntegerField()
    paused = serializers.BooleanField()
    paused_replicas = serializers.IntegerField(allow_null=True)
    newest = ScaleSampleSerializer(allow_null=True)
    wakes = WakeSerializer(many=True, source="slept.wakes")
    cold_start_seconds = serializers.IntegerField(allow_null=True, source="slept.cold_start_seconds")
    asleep_seconds = serializers.IntegerField(source="slept.asleep_seconds")
    saved = MoneySerializer(
        allow_null=True,
        source="slept.saved_micro_usd",
        help_text="What the replicas that did not run while it slept would cost at today's price.",
    )
