"""Output serializers of workloads: the words of REST v1, for answers and for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.http.serializers import MoneySerializer
from workloads.reason_texts import glossary
from workloads.states import Phase, Priority

SPEC_OF_A_ROW = (
    *("kind", "runtime", "image", "template", "replicas", "gpus_per_replica"),
    *("min_replicas", "max_replicas"),
)
"""Fields of the spec that a row of a list has."""


class CostSerializer(serializers.Serializer[Any]):
    so_far = MoneySerializer(allow_null=True)
    rate_per_hour = MoneySerializer(allow_null=True)
    at_time_limit = MoneySerializer(allow_null=True)
    current_rate_per_hour = MoneySerializer(
        allow_null=True, help_text="Of the pods that are charged now; rate_per_hour is of all that may run."
    )
    reason = serializers.CharField(help_text="Why an amount is null, such as `no price`.")


class AttemptSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    phase = serializers.ChoiceField(choices=[phase.value for phase in Phase])
    reason = serializers.CharField()
    message = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    resumed_from = serializers.CharField(allow_null=True)
    lost_seconds = serializers.IntegerField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class WorkloadSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    team = serializers.CharField()
    owner = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    phase = serializers.ChoiceField(choices=[phase.value for phase in Phase])
    reason = serializers.CharField(help_text=glossary())
    message = serializers.CharField()
    since = serializers.DateTimeField()
    observed_at = serializers.DateTimeField(allow_null=True)
    priority = serializers.ChoiceField(choices=[priority.value for priority in Priority])
    flavor = serializers.CharField(allow_null=True)
    capacity = serializers.CharField()
    quantity = serializers.IntegerField(help_text="Units of the flavor, over all pods.")
    labels = serializers.DictField(child=serializers.CharField())
    spec = serializers.DictField()
    attempts = AttemptSerializer(many=True)
    cost = CostSerializer()
    simulated = serializers.BooleanField(help_text="Whether its GPUs are pretended.")
    created_at = serializers.DateTimeField()
    admitted_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    url = serializers.URLField()
    links = serializers.DictField(child=serializers.URLField())


class WorkloadRowSerializer(WorkloadSerializer):
    """A row of a list: as one asked for alone, without what is long."""

    message = serializers.CharField(help_text="Its beginning, where it is long.")
    spec = serializers.DictField(
        help_text=f"{', '.join(SPEC_OF_A_ROW)}, as far as its kind has them; all of it with `expand=spec`."
    )
    attempts = AttemptSerializer(many=True, required=False, help_text="With `expand=attempts`.")
    links = serializers.DictField(
        child=serializers.URLField(), help_text="`self`; all of them with `expand=links`."
    )


class EventSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    from_phase = serializers.CharField()
    to_phase = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()
    actor = serializers.CharField()
    attempt = serializers.IntegerField()


class PodSerializer(serializers.Serializer[Any]):
    uid = serializers.CharField()
    name = serializers.CharField()
    namespace = serializers.CharField()
    attempt = serializers.IntegerField()
    phase = serializers.CharField()
    ready = serializers.BooleanField()
    restarts = serializers.IntegerField()
    reason = serializers.CharField()
    message = serializers.CharField()
    node_name = serializers.CharField()
    image_digest = serializers.CharField(
        allow_null=True, help_text="Of the image that really ran; null before it was pulled."
    )
    exit_code = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    scheduled_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    gone_at = serializers.DateTimeField(allow_null=True)


class EvidenceSerializer(serializers.Serializer[Any]):
    fact = serializers.CharField()
    value = serializers.IntegerField()
    unit = serializers.CharField()
    observed_at = serializers.DateTimeField()


class StartSerializer(serializers.Serializer[Any]):
    p50 = serializers.DateTimeField(allow_null=True)
    p90 = serializers.DateTimeField(allow_null=True)
    basis = serializers.CharField(allow_null=True)
    unknown_because = serializers.CharField(allow_null=True)
    past_hit_rate = serializers.FloatField(
        allow_null=True,
        help_text="Share of past estimates that started by their p90; null before any was scored.",
    )


class PlannedCostSerializer(serializers.Serializer[Any]):
    rate_per_hour = MoneySerializer(allow_null=True)
    at_time_limit = MoneySerializer(allow_null=True)


class QuotaEffectSerializer(serializers.Serializer[Any]):
    before = serializers.DictField(child=serializers.IntegerField())
    after = serializers.DictField(child=serializers.IntegerField())


class AheadSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(allow_null=True, help_text="Null for another team's.")
    team = serializers.CharField()
    units = serializers.IntegerField()


class FairShareSerializer(serializers.Serializer[Any]):
    use = serializers.IntegerField(help_text="Decayed use of the team in GPU-equivalent seconds.")
    weight = serializers.IntegerField()
    share = serializers.IntegerField(help_text="Use by weight: the smaller share goes first.")


class VictimSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(allow_null=True, help_text="Null for another team's.")
    lost_seconds = serializers.IntegerField()


class LeverSerializer(serializers.Serializer[Any]):
    change = serializers.DictField(help_text="Fields of the request, or ask_for_quota in units.")
    verdict = serializers.ChoiceField(choices=["admit", "wait", "never"])
    reason = serializers.CharField()
    start_p50 = serializers.DateTimeField(allow_null=True)
    start_p90 = serializers.DateTimeField(allow_null=True)
    rate_per_hour = MoneySerializer(allow_null=True)
    cost_at_time_limit = MoneySerializer(allow_null=True)


class PreemptedSerializer(serializers.Serializer[Any]):
    cause = serializers.CharField()
    message = serializers.CharField()
    lost_seconds = serializers.IntegerField()
    at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class HintSerializer(serializers.Serializer[Any]):
    """Allowed, and seldom meant."""

    field = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()


class SubmittedSerializer(WorkloadSerializer):
    """What was made, and what its request says that is allowed and seldom meant."""

    warnings = HintSerializer(many=True)


class WaitingSerializer(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=["admit", "wait", "never"])
    reason = serializers.CharField()
    message = serializers.CharField()
    rule = serializers.CharField(help_text="The step of the policy that decided.")
    evidence = EvidenceSerializer(many=True)
    position = serializers.IntegerField(allow_null=True)
    ahead_count = serializers.IntegerField()
    ahead = AheadSerializer(many=True)
    start = StartSerializer()
    cost = PlannedCostSerializer()
    quota = QuotaEffectSerializer()
    fair_share = FairShareSerializer(allow_null=True)
    victims = VictimSerializer(many=True)
    levers = LeverSerializer(many=True)
    levers_complete = serializers.BooleanField(
        help_text="False where the queue is too long to try every change: there may be more that help."
    )
    revision = serializers.IntegerField(help_text="Of the pool when this was computed.")
    as_of = serializers.DateTimeField()
    decision = serializers.UUIDField(
        allow_null=True, help_text="The receipt of the last verdict that was stored."
    )
    since = serializers.DateTimeField(allow_null=True)
    preempted = PreemptedSerializer(allow_null=True)
    warnings = HintSerializer(many=True, help_text="Of a preview: what is allowed and seldom meant.")


class CostLineSerializer(serializers.Serializer[Any]):
    pod_uid = serializers.CharField()
    node_name = serializers.CharField()
    flavor = serializers.CharField()
    units = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    amount = MoneySerializer(allow_null=True)
    settled = serializers.BooleanField(help_text="Whether all of it is in the ledger.")


class CostDetailSerializer(CostSerializer):
    lines = CostLineSerializer(many=True, help_text="Of the newest pods, 500 at most, oldest first.")
    lines_complete = serializers.BooleanField(
        help_text="False where older pods are left out; `ledger/?workload=` lists them all."
    )


class ManifestsSerializer(serializers.Serializer[Any]):
    manifests = serializers.ListField(child=serializers.DictField())
