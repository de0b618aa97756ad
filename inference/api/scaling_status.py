"""How REST tells how an endpoint is scaled."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.http.serializers import MoneySerializer
from foundation.money import as_json
from inference.autoscaling.state import Scaling, Slept


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


class ScalingStateSerializer(serializers.Serializer[Any]):
    engine = serializers.ChoiceField(choices=["keda", "hpa"], allow_null=True)
    trigger = serializers.CharField(allow_null=True)
    minimum = serializers.IntegerField()
    maximum = serializers.IntegerField()
    paused = serializers.BooleanField()
    paused_replicas = serializers.IntegerField(allow_null=True)
    newest = ScaleSampleSerializer(allow_null=True)
    wakes = WakeSerializer(many=True)
    cold_start_seconds = serializers.IntegerField(allow_null=True)
    asleep_seconds = serializers.IntegerField()
    saved = MoneySerializer(
        allow_null=True,
        help_text="What the replicas that did not run while it slept would cost at today's price.",
    )


def described(state: Scaling, slept: Slept) -> dict[str, Any]:
    """Both as `ScalingStateSerializer` shows them."""
    return {
        "engine": state.engine,
        "trigger": state.trigger,
        "minimum": state.minimum,
        "maximum": state.maximum,
        "paused": state.paused,
        "paused_replicas": state.paused_replicas,
        "newest": state.newest,
        "wakes": slept.wakes,
        "cold_start_seconds": slept.cold_start_seconds,
        "asleep_seconds": slept.asleep_seconds,
        "saved": as_json(slept.saved_micro_usd),
    }
