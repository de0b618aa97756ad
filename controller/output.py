"""Output serializers of workloads: the words of REST v1, for answers and for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workloads.states import Phase, Priority


class MoneySerializer(serializers.Serializer[Any]):
    amount_micro_usd = serializers.IntegerField()
    usd = serializers.CharField()


class CostSerializer(serializers.Serializer[Any]):
    so_far = MoneySerializer(allow_null=True)
    rate_per_hour = MoneySerializer(allow_null=True)
    at_time_limit = MoneySerializer(allow_null=True)
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
    reason = serializers.CharField()
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


class PlannedCostSerializer(serializers.Serializer[Any]):
    rate_per_hour = MoneySerializer(allow_null=True)
    at_time_limit = MoneySerializer(allow_null=True)


class QuotaEffectSerializer(serializers.Serializer[Any]):
    before = serializers.DictField(child=serializers.IntegerField())
    after = serializers.DictField(child=serializers.IntegerField())


class WaitingSerializer(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=["admit", "wait", "never"])
    reason = serializers.CharField()
    message = serializers.CharField()
    evidence = EvidenceSerializer(many=True)
    position = serializers.IntegerField(allow_null=True)
    start = StartSerializer()
    cost = PlannedCostSerializer()
    quota = QuotaEffectSerializer()


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
    lines = CostLineSerializer(many=True)


class ManifestsSerializer(serializers.Serializer[Any]):
    manifests = serializers.ListField(child=serializers.DictField())
