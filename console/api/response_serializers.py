"""Output serializers of workloads: the words of REST v1, for answers and for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from typing_extensions import override

from console.api.representations import EXPANSIONS, WorkloadAnswer
from console.reason_texts import glossary
from controller.waiting_card import Card, LeverOffer
from costs.queries import CapacityQuote, CostLine
from foundation.http.chosen import ChosenFields
from foundation.http.serializers import EpochSecondsField, MoneySerializer, TextOrNullField
from policy.budgets import BudgetShare
from policy.pool_snapshot import TeamFacts
from workloads.states import Phase, Priority

ROW_MESSAGE_LENGTH = 160
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
    resumed_from = TextOrNullField()
    lost_seconds = serializers.IntegerField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class _OfKind(serializers.Field[Any, Any, Any, Any]):
    """What not every kind has: the answer about another one does not have the field."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)

    @override
    def get_attribute(self, instance: WorkloadAnswer) -> Any:
        name = str(self.field_name)
        if name not in instance.of_kind:
            raise serializers.SkipField
        return instance.of_kind[name]


class NumberOfKindField(_OfKind, serializers.IntegerField):
    """A number that not every kind has."""


class SweepPlaceSerializer(_OfKind, serializers.Serializer[Any]):
    """The place of a run in the sweep that it is a member of."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    number = serializers.IntegerField()
    parameters = serializers.DictField(help_text="Its combination of the sweep's parameters.")


# Serializes a WorkloadAnswer.
class WorkloadSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="workload.public_id")
    team = serializers.CharField(source="workload.team.slug")
    owner = serializers.CharField(source="workload.owner.username")
    name = serializers.CharField(source="workload.name")
    kind = serializers.CharField()
    phase = serializers.ChoiceField(choices=[phase.value for phase in Phase], source="workload.phase")
    reason = serializers.CharField(help_text=glossary(), source="workload.reason")
    message = serializers.CharField(source="workload.message")
    since = serializers.DateTimeField(source="workload.since")
    observed_at = serializers.DateTimeField(allow_null=True, source="workload.observed_at")
    priority = serializers.ChoiceField(
        choices=[priority.value for priority in Priority], source="workload.priority"
    )
    flavor = serializers.CharField(allow_null=True)
    capacity = serializers.CharField(source="workload.capacity_type")
    quantity = serializers.IntegerField(
        help_text="Units of the flavor, over all pods.", source="workload.units"
    )
    labels = serializers.DictField(child=serializers.CharField(), source="workload.labels")
    spec = serializers.DictField()
    revision = NumberOfKindField(help_text="Of an endpoint: the revision that is wanted.")
    serving_revision = NumberOfKindField(
        allow_null=True,
        help_text="Of an endpoint: the revision that serves, which is the last that was fully ready; null before.",
    )
    sweep = SweepPlaceSerializer(
        allow_null=True,
        help_text="Of a run: the sweep that it is a member of; null for one that stands alone.",
    )
    attempts = AttemptSerializer(many=True, source="workload.attempts")
    cost = CostSerializer()
    simulated = serializers.BooleanField(
        help_text="Whether its GPUs are pretended.", source="workload.simulated"
    )
    created_at = serializers.DateTimeField(source="workload.created_at")
    admitted_at = serializers.DateTimeField(allow_null=True, source="workload.admitted_at")
    started_at = serializers.DateTimeField(allow_null=True, source="workload.started_at")
    finished_at = serializers.DateTimeField(allow_null=True, source="workload.finished_at")
    url = serializers.URLField()
    links = serializers.DictField(child=serializers.URLField())


class BeginningField(serializers.CharField):
    """The text, or its beginning with an ellipsis where it is longer than a row of a list has room for."""

    @override
    def to_representation(self, value: Any) -> str:
        text = str(value)
        return text if len(text) <= ROW_MESSAGE_LENGTH else f"{text[: ROW_MESSAGE_LENGTH - 1]}…"


class ReadWorkloadSerializer(ChosenFields, WorkloadSerializer):
    """A run or an endpoint, with all its fields or those that were asked for."""


class WorkloadRowSerializer(ChosenFields, WorkloadSerializer):
    """A row of a list: as one asked for alone, without what is long."""

    message = BeginningField(help_text="Its beginning, where it is long.", source="workload.message")
    spec = serializers.DictField(
        help_text=f"{', '.join(SPEC_OF_A_ROW)}, as far as its kind has them; all of it with `expand=spec`."
    )
    attempts = AttemptSerializer(
        many=True, required=False, help_text="With `expand=attempts`.", source="workload.attempts"
    )
    links = serializers.DictField(
        child=serializers.URLField(), help_text="`self`; all of them with `expand=links`."
    )

    @override
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        if "attempts" not in self.context.get("expand", EXPANSIONS):
            fields.pop("attempts", None)
        return fields


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


class StartSerializer(serializers.Serializer[Card]):
    p50 = EpochSecondsField(allow_null=True, source="estimate.p50")
    p90 = EpochSecondsField(allow_null=True, source="estimate.p90")
    basis = TextOrNullField(source="estimate.basis")
    unknown_because = serializers.CharField(allow_null=True, source="estimate.unknown_because")
    past_hit_rate = serializers.FloatField(
        allow_null=True,
        help_text="Share of past estimates that started by their p90; null before any was scored.",
    )


class CapacityQuoteSerializer(serializers.Serializer[CapacityQuote]):
    """What the same costs on one capacity type."""

    capacity = serializers.CharField(source="capacity_type")
    rate_per_hour = MoneySerializer()
    at_time_limit = MoneySerializer(allow_null=True)


class PlannedCostSerializer(serializers.Serializer[Card]):
    rate_per_hour = MoneySerializer(allow_null=True)
    at_time_limit = MoneySerializer(
        allow_null=True,
        help_text="By the prices that are known until then; what the ledger charges for exactly that long from now on.",
    )
    by_capacity = CapacityQuoteSerializer(
        many=True, help_text="The same on each capacity type that the flavor has and that has a price."
    )


class BudgetShareSerializer(serializers.Serializer[BudgetShare]):
    amount = MoneySerializer(help_text="Of the budget, with what is given on top.")
    left = MoneySerializer(help_text="What new work may be promised, before this.")
    takes = MoneySerializer(help_text="What this would be promised where there is as much.")
    ends_at = serializers.DateTimeField(help_text="When the period ends.")


class QuotaEffectSerializer(serializers.Serializer[Card]):
    before = serializers.DictField(child=serializers.IntegerField(), source="quota_before")
    after = serializers.DictField(child=serializers.IntegerField(), source="quota_after")


class AheadSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(allow_null=True, help_text="Null for another team's.")
    team = serializers.CharField()
    units = serializers.IntegerField()


class FairShareSerializer(serializers.Serializer[TeamFacts]):
    use = serializers.IntegerField(help_text="Decayed use of the team in GPU-equivalent seconds.")
    weight = serializers.IntegerField()
    share = serializers.IntegerField(help_text="Use by weight: the smaller share goes first.")


class VictimSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(allow_null=True, help_text="Null for another team's.")
    lost_seconds = serializers.IntegerField()


class LeverSerializer(serializers.Serializer[LeverOffer]):
    change = serializers.DictField(
        help_text=(
            "Fields of the request, ask_for_quota in units, ask_for_budget in micro-USD, or suspend with the id of "
            "another run of the owner's."
        )
    )
    lost_seconds = serializers.IntegerField(
        source="lever.lost_seconds", help_text="Work that the run which is to be suspended loses; else 0."
    )
    verdict = serializers.ChoiceField(choices=["admit", "wait", "never"], source="lever.verdict.outcome")
    reason = serializers.CharField(source="lever.verdict.reason")
    start_p50 = EpochSecondsField(allow_null=True, source="lever.estimate.p50")
    start_p90 = EpochSecondsField(allow_null=True, source="lever.estimate.p90")
    rate_per_hour = MoneySerializer(allow_null=True)
    cost_at_time_limit = MoneySerializer(allow_null=True, source="at_time_limit")


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

    warnings = HintSerializer(many=True, source="hints")


class WaitingSerializer(serializers.Serializer[Card]):
    verdict = serializers.ChoiceField(
        choices=["admit", "wait", "never", "ended"],
        source="outcome",
        help_text="`ended`: there is nothing to judge any more; `reason` and `message` say how.",
    )
    reason = serializers.CharField(source="verdict.reason")
    message = serializers.CharField(source="verdict.message")
    rule = serializers.CharField(help_text="The step of the policy that decided.", source="verdict.rule")
    evidence = EvidenceSerializer(many=True)
    position = serializers.IntegerField(allow_null=True)
    ahead_count = serializers.IntegerField()
    ahead = AheadSerializer(many=True)
    start = StartSerializer(source="*")
    cost = PlannedCostSerializer(source="*")
    quota = QuotaEffectSerializer(source="*")
    budget = BudgetShareSerializer(
        allow_null=True, help_text="Null where the team has none, or nothing has a price."
    )
    fair_share = FairShareSerializer(allow_null=True, source="team")
    victims = VictimSerializer(many=True)
    levers = LeverSerializer(many=True, source="offers")
    levers_complete = serializers.BooleanField(
        help_text="False where the queue is too long to try every change: there may be more that help.",
        source="offers_complete",
    )
    revision = serializers.IntegerField(help_text="Of the pool when this was computed.")
    as_of = serializers.DateTimeField(source="now")
    decision = serializers.UUIDField(
        allow_null=True, help_text="The receipt of the last verdict that was stored."
    )
    since = serializers.DateTimeField(allow_null=True)
    preempted = PreemptedSerializer(allow_null=True)
    warnings = HintSerializer(
        many=True, help_text="Of a preview: what is allowed and seldom meant.", source="hints"
    )


class CostLineSerializer(serializers.Serializer[CostLine]):
    pod_uid = serializers.CharField()
    node_name = serializers.CharField()
    flavor = serializers.CharField(source="flavor_name")
    units = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    amount = MoneySerializer(allow_null=True, source="amount_micro_usd")
    settled = serializers.BooleanField(help_text="Whether all of it is in the ledger.")


class CostDetailSerializer(CostSerializer):
    lines = CostLineSerializer(many=True, help_text="Of the newest pods, 500 at most, oldest first.")
    lines_complete = serializers.BooleanField(
        help_text="False where older pods are left out; `ledger/?workload=` lists them all."
    )


class ManifestsSerializer(serializers.Serializer[Any]):
    manifests = serializers.ListField(child=serializers.DictField())
