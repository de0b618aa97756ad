"""REST shapes of GPU metrics."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from telemetry.gpu_metrics import NAMES
from telemetry.gpu_series import GpuCard, GpuFigures, GpuSeries


class GpuCardSerializer(serializers.Serializer[Any]):
    pod = serializers.CharField()
    node = serializers.CharField(help_text="As dcgm-exporter names it; may be empty.")
    gpu = serializers.CharField(help_text="Its number on the node.")
    slice = serializers.CharField(
        help_text="Profile and number of a MIG slice, such as 1g.10gb #3; empty for a whole card."
    )
    model = serializers.CharField()
    uuid = serializers.CharField()


class GpuPointSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(help_text="The beginning of the step.")
    lowest = serializers.FloatField(help_text="Of all cards.")
    average = serializers.FloatField()
    highest = serializers.FloatField()


class GpuCardFiguresSerializer(serializers.Serializer[Any]):
    card = serializers.IntegerField(help_text="Its place in `cards`, from 0.")
    average = serializers.FloatField(help_text="Over the whole time.")
    highest = serializers.FloatField()
    latest = serializers.FloatField()


class GpuMetricSerializer(serializers.Serializer[Any]):
    name = serializers.ChoiceField(choices=NAMES)
    title = serializers.CharField()
    unit = serializers.ChoiceField(
        choices=["percent", "bytes", "celsius", "watts", "megahertz", "number"],
    )
    points = GpuPointSerializer(many=True, help_text="Steps of which nothing is known are left out.")
    of_cards = GpuCardFiguresSerializer(many=True)


class GpuSeriesSerializer(serializers.Serializer[Any]):
    """What the GPUs did, measured by DCGM and kept by Prometheus."""

    step_seconds = serializers.IntegerField()
    simulated = serializers.BooleanField(help_text="Whether the cards are pretended.")
    unknown_because = serializers.CharField(
        allow_null=True, help_text="Why nothing is known; null where something is."
    )
    shared = serializers.BooleanField(
        help_text="Whether pods of others may use the same cards: they are measured as a whole."
    )
    complete = serializers.BooleanField(
        help_text="Whether all its pods and cards are there: 64 and 256 at most."
    )
    cards = GpuCardSerializer(many=True)
    metrics = GpuMetricSerializer(many=True)


class RunMetricsSerializer(serializers.Serializer[Any]):
    gpus = GpuSeriesSerializer()


def shown_gpus(series: GpuSeries, *, simulated: bool) -> dict[str, Any]:
    """As `GpuSeriesSerializer` describes it."""
    places = {card: place for place, card in enumerate(series.cards)}
    return {
        "step_seconds": int(series.step.total_seconds()),
        "simulated": simulated,
        "unknown_because": series.unknown_because or None,
        "shared": series.shared,
        "complete": series.complete,
        "cards": [
            {name: getattr(card, name) for name in ("pod", "node", "gpu", "slice", "model", "uuid")}
            for card in series.cards
        ],
        "metrics": [_metric(each, series, places) for each in series.figures if each.of_cards],
    }


def _metric(figures: GpuFigures, series: GpuSeries, places: dict[GpuCard, int]) -> dict[str, Any]:
    points = [(moment, figures.spread(slot)) for slot, moment in enumerate(series.moments)]
    return {
        "name": figures.metric.name,
        "title": figures.metric.title,
        "unit": figures.metric.unit,
        "points": [
            {"at": at, "lowest": spread[0], "average": spread[1], "highest": spread[2]}
            for at, spread in points
            if spread is not None
        ],
        "of_cards": [
            {
                "card": places[total.card],
                "average": total.average,
                "highest": total.highest,
                "latest": total.latest,
            }
            for total in figures.totals()
        ],
    }
