"""What REST answers about sweeps."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.api.response_serializers import CostSerializer, WaitingSerializer
from foundation.http.serializers import EpochSecondsField, TextOrNullField
from jobs.matrix import MEMBERS_MAX
from jobs.sweeps.card import SweepCard
from jobs.sweeps.queries import SweepAnswer
from jobs.sweeps.serializers import MatrixSerializer
from workloads.states import Phase


class SweepRowSerializer(serializers.Serializer[SweepAnswer]):
    id = serializers.UUIDField(source="sweep.public_id")
    team = serializers.CharField(source="sweep.team.slug")
    owner = serializers.CharField(source="sweep.owner.username")
    name = serializers.CharField(
        source="sweep.name", help_text="Its members are called so, with their number."
    )
    labels = serializers.DictField(child=serializers.CharField(), source="sweep.labels")
    size = serializers.IntegerField(source="sweep.size", help_text="How many members it has.")
    max_parallel = serializers.IntegerField(
        source="sweep.max_parallel",
        allow_null=True,
        min_value=1,
        max_value=MEMBERS_MAX,
        help_text="How many members wait for GPUs or have them at once; null for all.",
    )
    phase = serializers.ChoiceField(
        choices=[phase.value for phase in Phase],
        help_text="Of all together: Running while one is in the cluster, then Queued while one waits; at the end "
        "Failed, Cancelled or Succeeded, by the worst end of a member. Members that early_stop cancelled do not count "
        "where another one succeeded.",
    )
    members = serializers.DictField(child=serializers.IntegerField(), help_text="How many are in each phase.")
    held_back = serializers.IntegerField(
        help_text="How many of the suspended ones `max_parallel` keeps from waiting."
    )
    stopped_early = serializers.IntegerField(help_text="How many `early_stop` has cancelled.")
    created_at = serializers.DateTimeField(source="sweep.created_at")
    cancelled_at = serializers.DateTimeField(source="sweep.cancelled_at", allow_null=True)
    finished_at = serializers.DateTimeField(
        source="sweep.finished_at", allow_null=True, help_text="When its last member had ended."
    )
    url = serializers.URLField()
    links = serializers.DictField(child=serializers.URLField())


class BestSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="run.workload.public_id")
    name = serializers.CharField(source="run.workload.name")
    number = serializers.IntegerField(source="run.number")
    parameters = serializers.DictField(source="run.parameters")
    value = serializers.FloatField()


class SweepSerializer(SweepRowSerializer):
    """One sweep, with its matrix, its cost and the best of its members."""

    matrix = MatrixSerializer(source="sweep.matrix")
    cost = CostSerializer(
        help_text="Of all members; at_time_limit is what they cost at most, the ended ones as they did."
    )
    best = BestSerializer(
        allow_null=True, help_text="The member with the best value of the metric of early_stop so far."
    )


class LastStartSerializer(serializers.Serializer[Any]):
    p50 = EpochSecondsField(allow_null=True)
    p90 = EpochSecondsField(allow_null=True)
    basis = TextOrNullField()
    unknown_because = serializers.CharField(allow_null=True)


class SweepFiguresSerializer(serializers.Serializer[Any]):
    members = serializers.IntegerField()
    max_parallel = serializers.IntegerField(allow_null=True)
    held_back = serializers.IntegerField(help_text="How many do not wait yet.")
    starting = serializers.IntegerField(
        allow_null=True,
        help_text="Of a preview: how many would be admitted at once, as far as a quota decides it.",
    )
    last_start = LastStartSerializer(help_text="When the last member starts.")


class SweepWaitingSerializer(WaitingSerializer):
    """The card of the member that starts next; its cost is that of all members."""

    sweep = SweepFiguresSerializer()


class PreviewSerializer(WaitingSerializer):
    """What submitting a body would do; of a sweep the card of its first member, with the cost of all."""

    sweep = SweepFiguresSerializer(allow_null=True, help_text="Null without a matrix.")


def shown(card: SweepCard) -> dict[str, Any]:
    """The card of a sweep, as REST answers it."""
    return {**WaitingSerializer(card.card).data, "sweep": SweepFiguresSerializer(card.figures).data}
